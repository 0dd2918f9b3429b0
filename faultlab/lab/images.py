"""The container images: one folder each under `images/`, with a tag made from its sources.

The tag is a digest of the folder as this release of Debian needs it, and of the images below it. So
an unchanged image is never built again, and a changed one always is. `vm` is not a container image
and is left out. The image of a tool is named by the path of its folder, and that of another
collection is `NAME/IMAGE`.
"""

import hashlib
import stat
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from faultlab.core import paths
from faultlab.core.errors import BadInput
from faultlab.core.naming import flat
from faultlab.lab import collection, release

BASE = "base"
LABEL = "faultlab.image"
# Facts about a daemon or a tool; its image does not depend on them.
FACTS = ("daemon.toml", "tool.toml")


def names() -> list[str]:
    """Return the names of the images that a stack can use, `base` first."""
    found = sorted(file.parent.name for file in paths.images().glob("*/Dockerfile"))
    return [BASE, *(name for name in found if name != BASE)]


def of_others(wanted: Iterable[str]) -> list[str]:
    """Return those of these images that are of another collection."""
    return [name for name in wanted if "/" in name and not Path(name).is_absolute()]


def folder(name: str) -> Path:
    """Return the folder with an image's sources. Raises BadInput if its collection is not here."""
    owner, slash, bare = name.partition("/")
    if not (owner and slash):
        return paths.images() / name
    if its := collection.of(name):
        return its.root / "images" / bare
    raise BadInput(
        f"There is no collection {owner!r}, which has the image {bare}.", "faultlab list"
    )


def short(name: str) -> str:
    """Return an image's name without a path, as its tag has it."""
    path = Path(name)
    return f"tool-{path.name}" if path.is_absolute() else flat(name)


def belongs(file: Path) -> bool:
    """Return whether a file is a part of the image, by its path in the folder."""
    return str(file) not in FACTS and "__pycache__" not in file.parts


@cache
def tag(name: str) -> str:
    """Return `faultlab/<name>:<digest of its sources>`."""
    digest = hashlib.sha256()
    digest.update(release.now().mark if name == BASE else tag(BASE).encode())
    sources = folder(name)
    for file in sorted(path for path in sources.rglob("*") if path.is_file()):
        if belongs(file.relative_to(sources)):
            bits = mode(file.stat().st_mode) & 0o111
            digest.update(f"{file.relative_to(sources)} {bits}\n".encode())
            digest.update(release.content(file.read_bytes()))
    return f"faultlab/{short(name)}:{digest.hexdigest()[:12]}"


def mode(found: int) -> int:
    """Return the permissions that Git stores: 755 for what its owner can execute, else 644.

    The other bits come from the umask of the checkout. With 077 a daemon could not read its files.
    """
    return 0o755 if found & stat.S_IXUSR else 0o644
