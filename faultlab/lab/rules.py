"""Rules: what a compose file of a lab may say, so that no lab can touch the host.

Everything that is not listed here is refused: `privileged`, `ports`, host namespaces, bind mounts,
a network that is not internal, and whatever Compose may learn to do tomorrow.
"""

from __future__ import annotations

from typing import Any

from faultlab.lab import images

_SERVICE_KEYS = {
    *("image", "hostname", "init", "command", "entrypoint", "environment", "working_dir", "user"),
    *("cap_add", "cap_drop", "sysctls", "ulimits", "volumes", "tmpfs", "networks", "depends_on"),
    *("network_mode", "pid", "cpus", "mem_limit", "memswap_limit", "pids_limit", "stop_signal"),
    "security_opt",
}
_NO_HOST_ADDRESS = {"com.docker.network.bridge.inhibit_ipv4": "true"}
_CAPABILITIES = {"NET_ADMIN", "NET_RAW", "SYS_PTRACE"}
_DOCUMENT_KEYS = ("services", "volumes", "networks")


class Broken(Exception):
    """The file breaks a rule; the text says which, as `key: what was expected`."""


def obey(document: Any) -> None:
    """Check a compose document. Raises Broken for the first thing that is wrong."""
    if not isinstance(document, dict):
        raise Broken(f"expected services, got {document!r}")
    for key in document:
        if key not in _DOCUMENT_KEYS and not str(key).startswith("x-"):
            raise Broken(f"{key}: not allowed in a lab")
    for kind in _DOCUMENT_KEYS:
        things = document.get(kind)
        _table(kind, things)
        for name, thing in (things or {}).items():
            where = f"{kind}.{name}"
            _table(where, thing)
            _RULES[kind](where, thing or {})


def _table(where: str, thing: Any) -> None:
    if thing is not None and not isinstance(thing, dict):
        raise Broken(f"{where}: expected a table, got {thing!r}")


def _service(where: str, service: dict[str, Any]) -> None:
    for key, value in service.items():
        if key not in _SERVICE_KEYS or not _ALLOWED.get(key, _anything)(value):
            raise Broken(f"{where}.{key}: not allowed in a lab")
    image = service.get("image")
    known = images.names()
    if image is not None and image not in known:
        names = ", ".join(sorted(known))
        raise Broken(f"{where}.image: expected one of {names}, got {image!r}")


def _anything(_value: Any) -> bool:
    return True


def _joins(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("service:")


def _few_capabilities(value: Any) -> bool:
    return isinstance(value, list) and all(entry in _CAPABILITIES for entry in map(str, value))


def _apparmor_only(value: Any) -> bool:
    return bool(value == ["apparmor=unconfined"])


def _named_volumes(value: Any) -> bool:
    """`name:/path`: a volume of the stack, never a path of the host."""
    return isinstance(value, list) and all(
        isinstance(entry, str) and entry[:1].isalnum() and ":/" in entry for entry in value
    )


_ALLOWED = {
    "network_mode": _joins,
    "pid": _joins,
    "cap_add": _few_capabilities,
    "volumes": _named_volumes,
    "security_opt": _apparmor_only,
}


def _network(where: str, network: dict[str, Any]) -> None:
    if network.get("internal") is not True:
        raise Broken(f"{where}.internal: not allowed in a lab")
    if where != "networks.default":
        raise Broken(f"{where}: not allowed in a lab")
    for key in set(network) - {"internal", "driver_opts"}:
        raise Broken(f"{where}.{key}: not allowed in a lab")
    if network.get("driver_opts") not in (None, _NO_HOST_ADDRESS):
        raise Broken(f"{where}.driver_opts: not allowed in a lab")


def _volume(where: str, volume: dict[str, Any]) -> None:
    for key in volume:
        raise Broken(f"{where}.{key}: not allowed in a lab")


_RULES = {"services": _service, "networks": _network, "volumes": _volume}
