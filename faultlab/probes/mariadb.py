"""Probe: what MariaDB counts, asked on its machine as root. Source: SHOW GLOBAL STATUS."""

from __future__ import annotations

from collections.abc import Sequence

from faultlab.engine import Shell


def status(machine: Shell, names: Sequence[str]) -> dict[str, int]:
    """Counters since the server started, by name (`Com_select`, `Handler_read_next`, …)."""
    wanted = ", ".join(f"'{name}'" for name in names)
    sql = f"SHOW GLOBAL STATUS WHERE Variable_name IN ({wanted})"
    return parse(machine.must(f'mysql -BNe "{sql}"'))


def parse(out: str) -> dict[str, int]:
    """Read the lines `Com_select<tab>1234`."""
    rows = (line.split("\t") for line in out.splitlines())
    return {name: int(value) for name, value in rows}
