"""Quantity: amounts as Kubernetes writes them: 500m, 256Mi."""

import re
from typing import Any

from faultlab.lab.model import bytes_of

_MEMORY = {"m": "Mi", "g": "Gi", "k": "Ki"}


def limits(cpus: Any = None, memory: Any = None) -> dict[str, str]:
    """Return limits as Kubernetes takes them; `memory` as in "512m"."""
    found = {} if cpus is None else {"cpu": f"{round(float(cpus) * 1000)}m"}
    return found if memory is None else {**found, "memory": str(bytes_of(str(memory)))}


def quantity(size: str) -> str:
    """Return a size of Docker, such as 16m, as Kubernetes takes it."""
    number, unit = re.fullmatch(r"(\d+)([kmg]?)", size, re.IGNORECASE).groups()  # type: ignore[union-attr]
    return number + _MEMORY.get(unit.lower(), "")


def amount(quantity: str) -> float:
    """Return a quantity such as 500m, 256Mi or 1 as a number."""
    units = {"m": 1e-3, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "k": 1e3, "M": 1e6, "G": 1e9}
    unit = next((each for each in units if str(quantity).endswith(each)), "")
    number = str(quantity).removesuffix(unit) if unit else str(quantity)
    return float(number or -1) * units.get(unit, 1)
