"""Paths: the project's own files. `FAULTLAB_ROOT` points to another copy (tests use it)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faultlab.core.errors import BadInput, CannotRun


def root() -> Path:
    """Return the folder that holds `labs/`, `checks/` and `images/`."""
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


def state() -> Path:
    """Return the folder that runs and classes are stored in: FAULTLAB_STATE, or the checkout.

    A user who cannot write to the checkout has them in their home. Raises CannotRun for a user
    without a home.
    """
    if chosen := os.environ.get("FAULTLAB_STATE"):
        return root() / chosen
    return root() if os.access(root(), os.W_OK) else _of_user("XDG_STATE_HOME", ".local/state")


def runs() -> Path:
    """Return the folder that holds a folder for each run. It is not under version control."""
    return state() / "runs"


def classes() -> Path:
    """Return the folder that holds a folder for each class that was started."""
    return state() / "classes"


def cache() -> Path:
    """Return the cache folder that this user's checkouts share.

    Raises CannotRun for a user without a home.
    """
    return _of_user("XDG_CACHE_HOME", ".cache")


def docker_config() -> Path:
    """Return the folder of Docker's command line, with its contexts and plugins."""
    home = Path(os.environ.get("HOME") or "/")
    return Path(os.environ.get("DOCKER_CONFIG") or home / ".docker")


def _of_user(variable: str, usual: str) -> Path:
    """Return our folder in the user's home, or at a variable of the XDG Base Directories."""
    try:
        return Path(os.environ.get(variable) or Path.home() / usual) / "faultlab"
    except RuntimeError as error:
        raise CannotRun("This user has no home.", "export FAULTLAB_STATE=/a/folder") from error


def show(file: Path) -> str:
    """Return the path as a user types it in the project's folder."""
    try:
        return str(file.relative_to(root()))
    except ValueError:
        return str(file)


def in_a_folder(name: str) -> Path:
    """Return the path of a file to write. Raises BadInput if its folder does not exist."""
    file = Path(name)
    if not file.absolute().parent.is_dir():
        raise BadInput(f"There is no folder for {file}.", f"mkdir -p {file.parent}")
    return file


@contextmanager
def whole(file: Path) -> Iterator[Path]:
    """Yield a file to write to, which replaces `file` when the body has ended.

    Raises CannotRun, for example on a full disk. Then the old file stays.
    """
    target = file.resolve()  # for a link, the file that it points to
    part = target.with_name(f"{target.name}.part")
    try:
        yield part
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise unwritable(file, error) from error


def write_whole(file: Path, text: str) -> None:
    """Write a whole file, or keep the old one. A pipe or a device is written to directly.

    Raises CannotRun, for example on a full disk.
    """
    if file.exists() and not file.is_file():
        file.write_text(text)
        return
    with whole(file) as part:
        part.write_text(text)


def unwritable(file: Path, error: OSError) -> CannotRun:
    """Return the error for a file or folder that cannot be written."""
    return CannotRun(f"{show(file)} cannot be written: {error.strerror}.", "df -h")
