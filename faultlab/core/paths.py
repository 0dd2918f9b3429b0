"""Paths: the project's own files, in a checkout or in an installed package.

`FAULTLAB_ROOT` points to another copy (tests use it). An installed package is only read: what a
command writes is in the user's folders (XDG Base Directory Specification).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from faultlab.core.errors import BadInput, CannotRun

_PACKAGE = Path(__file__).resolve().parents[1]
SHARE = "share"  # in a wheel, the folder of the package that holds labs/, images/ and the rest


def checkout() -> Path | None:
    """Return the checkout that this program is a part of; None if it is an installed package."""
    return None if (_PACKAGE / SHARE).is_dir() else _PACKAGE.parent


def root() -> Path:
    """Return the folder that holds `labs/`, `checks/` and `images/`."""
    return Path(os.environ.get("FAULTLAB_ROOT") or checkout() or _PACKAGE / SHARE)


def installed() -> bool:
    """Return whether the project's files are those of an installed package."""
    return root() == _PACKAGE / SHARE


def home() -> Path:
    """Return the folder that a user's stacks and runs belong to: the checkout, or theirs.

    Raises CannotRun for a user without a home.
    """
    return of_user() if installed() else root()


def program(of: Path) -> Path:
    """Return the `faultlab` of a folder that `root` returned, in its checkout or installed."""
    if of.name == SHARE:  # lib/python3.x/site-packages/faultlab/share
        return of.parents[4] / "bin/faultlab"
    return of / ".venv/bin/faultlab"


def needs_checkout(verb: str) -> None:
    """Raise CannotRun for a verb that reads or writes what only a checkout has."""
    if installed():
        raise CannotRun(
            f"`faultlab {verb}` needs a checkout of the project; this is an installed package.",
            f"cd to a checkout, then: .venv/bin/faultlab {verb}",
        )


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

    A user who cannot write to the checkout, or has none, has them in their home. Raises CannotRun
    for a user without a home.
    """
    if chosen := os.environ.get("FAULTLAB_STATE"):
        return Path(chosen) if Path(chosen).is_absolute() else home() / chosen
    return home() if os.access(root(), os.W_OK) else of_user()


def runs() -> Path:
    """Return the folder that holds a folder for each run. It is not under version control."""
    return state() / "runs"


def classes() -> Path:
    """Return the folder that holds a folder for each class that was started."""
    return state() / "classes"


def of_user() -> Path:
    """Return the folder of this user's state, whatever checkout it is. Raises CannotRun."""
    return _of_user("XDG_STATE_HOME", ".local/state")


def cache() -> Path:
    """Return the cache folder that this user's checkouts share.

    Raises CannotRun for a user without a home.
    """
    return _of_user("XDG_CACHE_HOME", ".cache")


def vm() -> Path:
    """Return the folder that `images/vm/build.sh` fills: disk, kernel, box, ssh key."""
    return cache() / "vm" if installed() else root() / ".vm"


def vagrant() -> Path:
    """Return the folder in which Vagrant keeps what it knows of the lab VM."""
    return cache() / "vagrant" if installed() else root() / ".vagrant"


def docker_config() -> Path:
    """Return the folder of Docker's command line, with its contexts and plugins."""
    home = Path(os.environ.get("HOME") or "/")
    return Path(os.environ.get("DOCKER_CONFIG") or home / ".docker")


def _of_user(variable: str, usual: str) -> Path:
    """Return our folder in the user's home, or at a variable of the XDG Base Directories."""
    try:
        return Path(os.environ.get(variable) or Path.home() / usual) / "faultlab"
    except RuntimeError as error:
        raise CannotRun("This user has no home.", f"export {variable}=/a/folder") from error


def show(file: Path) -> str:
    """Return the path as a user types it in the checkout, or the whole path without one."""
    if installed():
        return str(file)
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


def part_of(file: Path) -> Path:
    """Return the file that is written before it replaces `file`, or what that is a link to."""
    target = file.resolve()
    return target.with_name(f"{target.name}.part")


@contextmanager
def whole(file: Path) -> Iterator[Path]:
    """Yield a file to write to, which replaces `file` when the body has ended and it is on disk.

    Raises CannotRun, for example on a full disk. Then the old file stays.
    """
    part = part_of(file)
    target = part.with_name(part.name.removesuffix(".part"))
    try:
        yield part
        _flush(part)
        part.replace(target)
        flush_folder(target.parent)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise unwritable(file, error) from error
    except BaseException:  # such as Ctrl-C
        part.unlink(missing_ok=True)
        raise


def add_line(file: Path, line: str) -> None:
    """Write one more line to a file, on the disk, or keep it as it was. Raises CannotRun.

    Half a line at its end, as a kill leaves one, is dropped.
    """
    was = file.stat().st_size if file.exists() else None
    try:
        if was and not _ends_a_line(file):
            was = file.read_bytes().rfind(b"\n") + 1
            os.truncate(file, was)
        with file.open("a") as lines:
            lines.write(line + "\n")
            lines.flush()
            os.fsync(lines.fileno())
        if was is None:
            flush_folder(file.parent)
    except OSError as error:
        if was is not None:  # half a line must not precede the next one
            with suppress(OSError):
                os.truncate(file, was)
        raise unwritable(file, error) from error


def _ends_a_line(file: Path) -> bool:
    with file.open("rb") as lines:
        lines.seek(-1, os.SEEK_END)
        return lines.read() == b"\n"


def flush_folder(folder: Path) -> None:
    """Put the names of a folder on the disk, after one of them is new."""
    with suppress(OSError):  # some file systems cannot
        _flush(folder)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
