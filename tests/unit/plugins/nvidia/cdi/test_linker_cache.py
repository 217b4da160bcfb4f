"""The dynamic linker's cache, and libraries of a driver that lie where only the cache knows."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.plugins.nvidia.cdi.driver_files import find_driver_files
from plugbay.plugins.nvidia.cdi.linker_cache import cached_libraries
from tests.unit.plugins.nvidia.driver_trees import VERSION, elf, write

X86_64: Final = 0x0303
I386: Final = 0x0003
PLACE: Final = "opt/nvidia/lib64"


def cache(entries: Sequence[tuple[int, str, str]], *, has_old_table: bool = False) -> bytes:
    """A cache as ``ldconfig`` writes it: flags, name and path of each library."""
    table, texts = b"", b""
    start = 48 + 24 * len(entries)
    for flags, name, path in entries:
        key = start + len(texts)
        texts += name.encode() + b"\0" + path.encode() + b"\0"
        table += struct.pack("<iIIIQ", flags, key, key + len(name) + 1, 0, 0)
    new = struct.pack("<20sII20x", b"glibc-ld.so.cache1.1", len(entries), len(texts)) + table + texts
    if not has_old_table:
        return new
    old = struct.pack("<12sI", b"ld.so-1.7.0", 1) + bytes(12)
    return old + bytes(-len(old) % 8) + new


@pytest.mark.parametrize("has_old_table", [False, True])
def test_libraries_of_64_bits_are_listed_in_order(has_old_table: bool) -> None:
    entries = [(X86_64, "libb.so.1", "/b/libb.so.1"), (I386, "liba.so.1", "/a32/liba.so.1")]
    entries += [(0x0A03, "liba.so.1", "/a/liba.so.1"), (X86_64, "libb.so", "/b/libb.so.1"), (0, "x", "/x")]
    assert cached_libraries(cache(entries, has_old_table=has_old_table)) == ["/b/libb.so.1", "/a/liba.so.1"]


@pytest.mark.skipif(shutil.which("ldconfig") is None, reason="ldconfig is not installed")
def test_the_cache_of_this_machine_is_read() -> None:
    listed = subprocess.run([str(shutil.which("ldconfig")), "-p"], capture_output=True, text=True, check=True).stdout
    paths = {line.rpartition(" => ")[2] for line in listed.splitlines() if "x86-64" in line or "AArch64" in line}
    assert set(cached_libraries(Path("/etc/ld.so.cache").read_bytes())) == paths


@given(st.binary(max_size=200) | st.integers(0, 200).map(lambda end: cache([(X86_64, "a", "/a")])[:end]))
def test_any_bytes_are_a_cache_or_none(content: bytes) -> None:
    assert all(path.startswith("/") for path in cached_libraries(content))


def test_a_driver_that_only_the_cache_knows_is_found(tmp_path: Path) -> None:
    for name in ("libcuda", "libnvidia-ml", "libnvidia-nvvm"):
        write(tmp_path, f"{PLACE}/{name}.so.{VERSION}", elf(f"{name}.so.1"))
        (tmp_path / PLACE / f"{name}.so.1").symlink_to(f"{name}.so.{VERSION}")
    gone = (X86_64, "libgone.so.1", "/opt/gone/libgone.so.1")
    links = [(X86_64, f"{name}.so.1", f"/{PLACE}/{name}.so.1") for name in ("libcuda", "libnvidia-ml")]
    write(tmp_path, "etc/ld.so.cache", cache([gone, *links]))
    files = find_driver_files(tmp_path, VERSION, machine_root=tmp_path)
    assert files.library_directories == (f"/{PLACE}",)
    assert [library.path for library in files.libraries] == [
        f"/{PLACE}/{name}.so.{VERSION}" for name in ("libcuda", "libnvidia-ml", "libnvidia-nvvm")
    ]


def test_directories_that_are_known_count_before_the_cache(tmp_path: Path) -> None:
    for place in ("usr/lib64", PLACE):
        write(tmp_path, f"{place}/libcuda.so.{VERSION}", elf("libcuda.so.1"))
    path = f"/{PLACE}/libcuda.so.{VERSION}"
    write(tmp_path, "etc/ld.so.cache", cache([(X86_64, "libcuda.so.1", path)]))
    assert find_driver_files(tmp_path, VERSION, machine_root=tmp_path).library_directories == ("/usr/lib64",)
