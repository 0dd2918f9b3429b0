"""Archive: tar files that are made in memory, as engines take them."""

import io
import tarfile
from collections.abc import Mapping


def packed(files: Mapping[str, bytes], mtime: int = 0) -> bytes:
    """Return a tar file with these files by their paths, all of one time."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for path, content in files.items():
            put(tar, path, content, mtime)
    return made.getvalue()


def put(tar: tarfile.TarFile, path: str, content: bytes, mtime: int = 0) -> None:
    """Add a file to a tar file."""
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode, entry.mtime = len(content), 0o644, mtime
    tar.addfile(entry, io.BytesIO(content))
