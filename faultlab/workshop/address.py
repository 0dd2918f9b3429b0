"""Address: where a class listens, and the names that its pages can be requested by."""

import ipaddress
import json
import os
import re
import socket
from collections.abc import Sequence
from typing import TypedDict

from faultlab.core import command
from faultlab.core.defaults import CLASS_PORT, LOOPBACK
from faultlab.core.errors import BadInput, CannotRun

# Docker's own bridges have a hexadecimal number; br-lan belongs to a user.
_OF_CONTAINERS = re.compile(r"br-[0-9a-f]{12}$|docker|veth|virbr")


class At(TypedDict):
    """Where the pages of a class are served, with a given certificate and key or our own."""

    listen: str
    port: int
    cert: str | None
    key: str | None


def loopback(address: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    try:
        return address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def hosts(listen: str, names: Sequence[str]) -> list[str]:
    """Return the names and addresses that pages can be requested by, the best one first."""
    if loopback(listen):
        return list(dict.fromkeys(n.lower() for n in [*names, listen, LOOPBACK, "localhost"]))
    own = [listen] if listen not in ("0.0.0.0", "::") else _addresses()
    return list(dict.fromkeys(n.lower() for n in [*names, *own, socket.gethostname(), LOOPBACK]))


def listening(listen: str, port: int) -> socket.socket:
    """Return a listening socket. Raises BadInput, and CannotRun if the address is not usable."""
    if not listen:
        raise BadInput("--listen takes an address.", "faultlab class start --listen 0.0.0.0")
    family = socket.AF_INET6 if ":" in listen else socket.AF_INET
    try:
        both = listen == "::"
        return socket.create_server(
            (listen, port), family=family, backlog=1024, dualstack_ipv6=both
        )
    except (OSError, OverflowError) as error:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise CannotRun(
            f"Cannot listen on {listen}, port {port}: {why}.", f"add --port {CLASS_PORT + 1}"
        ) from error


def url(listen: str, names: Sequence[str], port: int, secure: bool) -> str:
    """Return the URL of the pages; `names` is what `hosts` returns."""
    name = listen if loopback(listen) else names[0]
    scheme = "https" if secure else "http"
    return f"{scheme}://{f'[{name}]' if ':' in name else name}:{port}"


def _addresses() -> list[str]:
    """Return this machine's own addresses, without those of container networks."""
    done = command.run(["ip", "-j", "address", "show", "up", "scope", "global"], timeout=10)
    found = json.loads(done.stdout or "[]")
    return [
        info["local"]
        for link in found
        if not _OF_CONTAINERS.match(link.get("ifname", ""))
        for info in link.get("addr_info", [])
        if info.get("family") in ("inet", "inet6")
    ]
