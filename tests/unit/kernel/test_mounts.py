"""What the kernel says is mounted, whatever bytes are in a name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from plugbay.kernel.mounts import file_system_types, mounted

LINE = b"36 35 98:0 /mnt1 %b rw,noatime master:1 - fuse.sshfs /dev/root rw\n"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (b"/plain", b"/plain"),
        (b"/a\\040b\\011c\\012d\\134e", b"/a b\tc\nd\\e"),
        (b"/a\\134040b", b"/a\\040b"),
        (b"/form\x0cfeed", b"/form\x0cfeed"),
        (b"/carriage\rreturn", b"/carriage\rreturn"),
        (b"/\xe9", b"/\xe9"),
        ("/\u2028".encode(), "/\u2028".encode()),
    ],
)
def test_names_may_hold_any_byte(tmp_path: Path, written: bytes, name: bytes) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mountinfo").write_bytes(LINE % b"/" + LINE % written)
    assert mounted(proc_root=tmp_path) == [(Path("/"), "fuse.sshfs"), (Path(os.fsdecode(name)), "fuse.sshfs")]
    assert file_system_types(proc_root=tmp_path) == {"98:0": "fuse.sshfs"}
