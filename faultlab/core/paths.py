"""Where the project's own files are. `FAULTLAB_ROOT` points to another copy (tests use it)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faultlab.core.errors import BadInput, CannotRun


def root() -> Path:
    """The folder that holds `labs/`, `checks/` and `images/`."""
    return Path(os.environ.get("FAULTLAB_ROOT") or Path(__file__).resolve().parents[2])


def labs() -> Path:
    """Return the folder that holds a folder for each lab, and `stack.yaml`."""
    return root() / "labs"


def checks() -> Path:
    """Return the folder that holds a `test_<id>.py` for each lab."""
    return root() / "checks"


def images() -> Path:
    """Return the folder that holds a folder for each image."""
    return root() / "images"


def tools() -> Path:
    """Return the folder that holds a folder for each diagnostic tool that can be examined."""
    return root() / "tools"


def runs() -> Path:
    """Return the folder that holds a folder for each run. It is not under version control."""
    return root() / "runs"


def cache() -> Path:
    """Return the folder that this user's copies of the project share; it can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "faultlab"


def show(file: Path) -> str:
    """The path as a user types it from the project's folder."""
    try:
        return str(file.relative_to(root()))
    except ValueError:
        return str(file)


def in_a_folder(name: str) -> Path:
    """Return the path of a file to write. Raises BadInput when its folder is not there."""
    file = Path(name)
    if not file.absolute().parent.is_dir():
        raise BadInput(f"There is no folder for {file}.", f"mkdir -p {file.parent}")
    return file


@contextmanager
def whole(file: Path) -> Iterator[Path]:
    """Yield a file to write to, which takes the place of `file` when the body has ended.

    Raises CannotRun: a full disk, say. The old file stays then.
    """
    target = file.resolve()  # of a link the file that it points to
    part = target.with_name(f"{target.name}.part")
    try:
        yield part
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise unwritable(file, error) from error


def write_whole(file: Path, text: str) -> None:
    """Write a file whole, or leave the old one; a pipe or a device just takes it.

    Raises CannotRun: a full disk, say.
    """
    if file.exists() and not file.is_file():
        file.write_text(text)
        return
    with whole(file) as part:
        part.write_text(text)


def unwritable(file: Path, error: OSError) -> CannotRun:
    """Return the error for a file or folder that cannot be written."""
    return CannotRun(f"{show(file)} cannot be written: {error.strerror}.", "df -h")
