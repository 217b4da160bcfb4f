"""The use of the machine, as ``/proc`` tells it."""

from __future__ import annotations

import os
from pathlib import Path

from plugbay.kernel.usage import MachineUsage, read_file_system_usage, read_machine_usage

STAT = "cpu  100 20 30 4000 500 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n"
MEMINFO = """MemTotal:        1000 kB
MemFree:          300 kB
AnonPages:        200 kB
Inactive(file):   150 kB
HugePages_Total:       0
"""


def test_columns_and_lines_are_those_that_a_kubelet_counts(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text(STAT)
    (tmp_path / "meminfo").write_text(MEMINFO)
    worked = (100 + 20 + 30 + 6 + 7 + 8) * 10**9 // os.sysconf("SC_CLK_TCK")
    expected = MachineUsage(worked, *(count * 1024 for count in (1000, 700, 550, 200)))
    assert read_machine_usage(proc_root=tmp_path) == expected


def test_a_file_system_is_that_of_the_path(tmp_path: Path) -> None:
    usage = read_file_system_usage(tmp_path)
    assert 0 < usage.available <= usage.capacity
    assert usage.used <= usage.capacity
    assert usage.inodes_free <= usage.inodes
