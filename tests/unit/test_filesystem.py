"""The probe of filesystems: what it makes of outputs that were recorded in two labs."""

from __future__ import annotations

import pytest

from faultlab.core.errors import CannotRun
from faultlab.probes import filesystem
from tests.unit.conftest import recorded


def test_a_removed_file_is_used_and_not_found() -> None:
    got = filesystem.parse(recorded("filesystem/deleted-log"))
    assert got == filesystem.Filesystem(16384, 16384, 3085511, 4, 348)
    assert got.unnamed == 16036


def test_inodes_run_out_before_blocks() -> None:
    got = filesystem.parse(recorded("filesystem/inodes"))
    assert got == filesystem.Filesystem(16384, 128, 512, 512, 128)
    assert (got.inodes_used_percent, got.unnamed) == (100, 0)


def test_no_folder_is_no_reading() -> None:
    with pytest.raises(CannotRun, match="stat and du printed something else: ''"):
        filesystem.parse("")
