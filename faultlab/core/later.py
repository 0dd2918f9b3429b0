"""Later: a module that is imported when it is first used.

Only some verbs use Docker; the others need not wait for the import of its SDK.
"""

from importlib import import_module
from typing import Any


class Later:
    """A stand-in for a module, which passes attribute access on to it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, key: str) -> Any:
        return getattr(import_module(self._name), key)
