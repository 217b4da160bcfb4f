"""Which file systems tell of changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugbay.kernel.filesystems import silent_filesystem


@pytest.mark.parametrize(("path", "kind"), [("/sys/class", "sysfs"), ("/proc/self", "proc"), ("/proc/none/x", "proc")])
def test_what_is_made_up_when_it_is_read_is_silent(path: str, kind: str) -> None:
    assert silent_filesystem(Path(path)) == kind


def test_a_directory_of_files_is_not(tmp_path: Path) -> None:
    assert silent_filesystem(tmp_path) == ""
    assert silent_filesystem(tmp_path / "to come") == ""
