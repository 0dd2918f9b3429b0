"""Compose policy: what a lab's compose file can contain, so that no lab can touch the host.

Anything that is not listed here is refused: `privileged`, `ports`, host namespaces, bind mounts, a
network that is not internal, and any feature that Compose will add.
"""

from collections.abc import Callable, Collection
from typing import Any

_SERVICE_KEYS = (
    *("image", "hostname", "init", "command", "entrypoint", "environment", "working_dir", "user"),
    *("cap_drop", "sysctls", "ulimits", "tmpfs", "read_only", "networks", "depends_on"),
    *("cpus", "mem_limit", "memswap_limit", "pids_limit", "stop_signal"),
)
_NO_HOST_ADDRESS = {"com.docker.network.bridge.inhibit_ipv4": "true"}
_CAPABILITIES = {"NET_ADMIN", "NET_RAW", "SYS_PTRACE"}


class Broken(Exception):
    """The file breaks a rule. The text says which, as `key: expected value`."""


def obey(document: Any, images: Collection[str]) -> None:
    """Check a compose document, which can use these images. Raises Broken."""
    if not isinstance(document, dict):
        raise Broken(f"expected services, got {document!r}")
    for key in document:
        if key not in _ALLOWED and not str(key).startswith("x-"):
            raise Broken(f"{key}: not allowed in a lab")
    for kind, allowed in _ALLOWED.items():
        for name, thing in _table(kind, document.get(kind)).items():
            where = f"{kind}.{name}"
            _keys(where, _table(where, thing), allowed)
            _built(where, (thing or {}).get("image"), images)


def _table(where: str, thing: Any) -> dict[str, Any]:
    if thing is not None and not isinstance(thing, dict):
        raise Broken(f"{where}: expected a table, got {thing!r}")
    return thing or {}


def _keys(where: str, thing: dict[str, Any], allowed: dict[str, Callable[[Any], bool]]) -> None:
    if "internal" in allowed and "internal" not in thing:
        raise Broken(f"{where}.internal: not allowed in a lab")
    if "internal" in allowed and where != "networks.default":
        raise Broken(f"{where}: not allowed in a lab")
    for key, value in thing.items():
        if key not in allowed or not allowed[key](value):
            raise Broken(f"{where}.{key}: not allowed in a lab")


def _built(where: str, image: Any, known: Collection[str]) -> None:
    if image is not None and image not in known:
        names = ", ".join(sorted(known))
        raise Broken(f"{where}.image: expected one of {names}, got {image!r}")


def _anything(_value: Any) -> bool:
    return True


def _joins(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("service:")


def _few_capabilities(value: Any) -> bool:
    return isinstance(value, list) and all(entry in _CAPABILITIES for entry in map(str, value))


def _named_volumes(value: Any) -> bool:
    """Accept `name:/path`, a volume of the stack, but never a path of the host."""
    return isinstance(value, list) and all(
        isinstance(entry, str) and entry[:1].isalnum() and ":/" in entry for entry in value
    )


# The keys that each kind of object can have, with a test of the value.
_ALLOWED: dict[str, dict[str, Callable[[Any], bool]]] = {
    "services": {
        **dict.fromkeys(_SERVICE_KEYS, _anything),
        **dict.fromkeys(("network_mode", "pid"), _joins),
        "cap_add": _few_capabilities,
        "dns": lambda value: bool(value == ["192.0.2.1"]),
        "volumes": _named_volumes,
        "security_opt": lambda value: bool(value == ["apparmor=unconfined"]),
    },
    "volumes": {},
    "networks": {
        "internal": lambda value: value is True,
        "driver_opts": lambda value: value in (None, _NO_HOST_ADDRESS),
    },
}
