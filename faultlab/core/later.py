"""Later: a module that is imported when it is first used.

One verb of many asks Docker, and the others need not wait until its SDK is imported.
"""

from importlib import import_module
from typing import Any


class Later:
    """Stands for a module; what is asked of it is asked of the module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, key: str) -> Any:
        return getattr(import_module(self._name), key)
