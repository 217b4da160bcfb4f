"""The memory that MPS daemons and clients share, mounted in a mount namespace of its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from plugbay.errors import PathUnusable
from plugbay.plugins.nvidia.mps.shared_memory import mount_shared_memory

PROGRAM = """
import json, os, sys
from pathlib import Path
from plugbay.kernel.private_mounts import enter_private_mounts
from plugbay.plugins.nvidia.mps.shared_memory import mount_shared_memory
enter_private_mounts(proc_root=Path("/proc"))
directory, proc = Path(sys.argv[1]), Path(sys.argv[2])
mount_shared_memory(directory, proc_root=proc)
(directory / "left").touch()
mount_shared_memory(directory, proc_root=proc)
of = os.statvfs(directory)
print(json.dumps([of.f_blocks * of.f_frsize, os.listdir(directory), directory.stat().st_mode & 0o7777, of.f_flag]))
"""


@pytest.mark.root
async def test_it_is_half_of_the_memory_and_empty_at_each_start(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:         409600 kB\nMemFree: 1 kB\n")
    words = [sys.executable, "-c", PROGRAM, str(tmp_path / "shm"), str(tmp_path)]
    done = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, check=False)
    if "PermissionError" in done.stderr:
        pytest.skip("this machine allows no mounts, not even in a namespace of our own")
    size, names, mode, flags = json.loads(done.stdout)
    assert (size, names, oct(mode)) == (409600 * 512, [], "0o1777")
    assert flags & 0b1110 == 0b1110  # nosuid, nodev, noexec


def test_a_place_where_nothing_can_be_mounted_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(PathUnusable, match="cannot be mounted"):
        mount_shared_memory(file / "shm")
