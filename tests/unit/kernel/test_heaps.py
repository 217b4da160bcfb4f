from __future__ import annotations

import platform
import subprocess
import sys

import pytest

ALLOCATE = """
import ctypes, sys, threading
if sys.argv[1] == "shared":
    from plugbay.kernel.heaps import share_one_heap
    share_one_heap()
libc = ctypes.CDLL(None)
everyone = threading.Barrier(5)

def allocate():
    everyone.wait()
    libc.malloc(1000)
    everyone.wait()

threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads:
    thread.start()
everyone.wait()
everyone.wait()
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""

SHRINK = """
from pathlib import Path
from plugbay.kernel.heaps import give_back

def resident_kb():
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0])

blocks = [bytes(4000) for _ in range(10_000)]
blocks = blocks[::20]
before = resident_kb()
give_back()
print(before - resident_kb())
"""
pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has heaps to tell of")


def test_memory_between_what_is_in_use_is_given_back() -> None:
    given_back_kb = int(subprocess.check_output([sys.executable, "-c", SHRINK], text=True))
    assert given_back_kb > 10_000


def test_threads_share_a_heap_when_told_to() -> None:
    heaps = {
        how: subprocess.check_output([sys.executable, "-c", ALLOCATE, how], text=True).count("<heap nr=")
        for how in ("shared", "own")
    }
    assert heaps["shared"] == 1 < heaps["own"]
