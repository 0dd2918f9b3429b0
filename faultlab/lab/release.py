"""Release: the Debian whose packages the images are made of, from FAULTLAB_RELEASE.

The files of labs, images and tools are written for one release. For another one, names that have a
version in them are replaced wherever such a file is read. For the first one nothing is, so none of
its digests depends on this module.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass

from faultlab.core.errors import BadInput

VARIABLE = "FAULTLAB_RELEASE"


@dataclass(frozen=True)
class Release:
    """A release of Debian. `pinned`: its slim image for all processors; and its packages' versions.

    Source of the images: https://github.com/docker-library/repo-info, repos/debian/remote
    """

    suite: str
    number: int
    pinned: str
    php: str
    java: str
    python: str

    @property
    def base(self) -> str:
        """Return the tag of the bare Debian that `base` is made from."""
        return f"faultlab/{self.suite}:latest"

    @property
    def title(self) -> str:
        """Return its name for people."""
        return f"Debian {self.number} ({self.suite})"

    @property
    def mark(self) -> bytes:
        """Return its part in a digest: nothing if the files are written for it."""
        return b"" if self == WRITTEN_FOR else self.suite.encode()


RELEASES = {
    release.suite: release
    for release in (
        # debian:bookworm-20260918-slim
        Release(
            suite="bookworm",
            number=12,
            pinned="debian@sha256:3783cc01769c7b2b1b83a5c5ad96c815348e28ed7da68e2e3687004faa906251",
            php="8.2",
            java="17",
            python="3.11",
        ),
        # debian:trixie-20260918-slim
        Release(
            suite="trixie",
            number=13,
            pinned="debian@sha256:a99cfc517144bc59b1978475ec53b46ecabec7e43635402ee5b77cc54cd1b20a",
            php="8.4",
            java="21",
            python="3.13",
        ),
    )
}
WRITTEN_FOR = RELEASES["bookworm"]
USUAL = RELEASES["bookworm"]
# Names in those files: of packages, programs, units and folders. No prose ("since PHP 8.2") is one.
_NAMES = ("php-fpm{php}", "php{php}-", "/etc/php/{php}/", "openjdk-{java}-")


def now() -> Release:
    """Return the release of this command. Raises BadInput for one that is not known."""
    chosen = os.environ.get(VARIABLE) or USUAL.suite
    if chosen not in RELEASES:
        raise BadInput(
            f"{VARIABLE}: expected one of {', '.join(RELEASES)}, got {chosen!r}.",
            f"export {VARIABLE}={USUAL.suite}",
        )
    return RELEASES[chosen]


def text(written: str) -> str:
    """Return a text of a lab or image as the release of this command needs it. Raises BadInput."""
    chosen = now()
    if chosen == WRITTEN_FOR:
        return written
    for name in _NAMES:
        written = written.replace(
            name.format_map(asdict(WRITTEN_FOR)), name.format_map(asdict(chosen))
        )
    return written


def content(written: bytes) -> bytes:
    """Return a file of an image as `text` does; one that is no text stays as it is."""
    try:
        return text(written.decode()).encode()
    except UnicodeDecodeError:
        return written


def needs_written(verb: str) -> None:
    """Raise BadInput for a verb that writes to those files, if they are for another release."""
    if now() != WRITTEN_FOR:
        raise BadInput(
            f"`faultlab {verb}` writes files that are for {WRITTEN_FOR.title}.",
            f"{VARIABLE}={WRITTEN_FOR.suite} faultlab {verb}",
        )
