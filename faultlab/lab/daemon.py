"""Daemon: the facts about the daemon in an image, from `images/<name>/daemon.toml`.

Its Dockerfile says how it is built and when it is healthy. These facts do not change the image.
"""

from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from faultlab.core import document, paths
from faultlab.core.document import Strict


class Daemon(Strict):
    """The facts of one daemon.

    `log`: the folder of its logs, which its machine shares. `status`: commands in its container
    that print its own figures, each with the name of the file in which a recording keeps the
    output. `probe`: the probe that reads its figures for the USE table and the timeline.
    """

    log: Annotated[str, Field(pattern=r"^/[\w./-]+$")] = ""
    status: dict[str, str] = {}
    probe: Literal["", "fpm", "mysql"] = ""


@cache
def read(folder: Path) -> Daemon:
    """Return the facts of the daemon in an image's folder. Raises BadInput."""
    file = folder / "daemon.toml"
    return document.strict(Daemon, file, paths.show(file), "docs/adding-a-daemon.md")
