"""Dockerfile: what the Dockerfile of an image says about its daemon.

An engine that is no Docker has to be told the command of a container. The folders of our images
are the source of it, so that no Docker has to be asked.
"""

import json
import re
import shlex
from dataclasses import dataclass
from functools import cache

from faultlab.lab import images, release

_LINE = re.compile(r"^(CMD|ENTRYPOINT|STOPSIGNAL|HEALTHCHECK)\s+(.*)$", re.MULTILINE)
_OPTION = re.compile(r"--[a-z-]+=\S+\s+")


@dataclass(frozen=True)
class Dockerfile:
    """The command of an image, the signal that ends it, and its health check as a shell command."""

    command: tuple[str, ...]
    stop: str = "TERM"
    health: str = ""


@cache
def read(image: str) -> Dockerfile:
    """Return the recipe of an image; what its Dockerfile leaves out is Docker's default."""
    text = release.text((images.folder(image) / "Dockerfile").read_text()).replace("\\\n", "")
    said = {match[1]: match[2].strip() for match in _LINE.finditer(text)}
    health = _OPTION.sub("", said.get("HEALTHCHECK", "")).removeprefix("CMD ").strip()
    return Dockerfile(
        command=(*_words(said.get("ENTRYPOINT", "")), *_words(said.get("CMD", ""))),
        stop=said.get("STOPSIGNAL", "SIGTERM").removeprefix("SIG"),
        health=shlex.join(_words(health)) if health.startswith("[") else health,
    )


def _words(text: str) -> tuple[str, ...]:
    if not text:
        return ()
    return tuple(json.loads(text)) if text.startswith("[") else ("sh", "-c", text)
