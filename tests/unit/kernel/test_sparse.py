"""Holes in files."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.kernel import sparse
from plugbay.kernel.sparse import can_hold, clear, is_zero

SIZE = 64 * 1024
BLOCK = 4096
LIMIT = 2**40
"""Larger than any file that another thread may write meanwhile."""

OFFSETS = st.integers(0, SIZE // BLOCK - 1).map(lambda block: block * BLOCK)
WRITES = st.lists(st.tuples(st.integers(0, SIZE - 16), st.binary(min_size=1, max_size=16)), max_size=6)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sparse") / "file"


def fill(file: Path, writes: list[tuple[int, bytes]]) -> bytes:
    with open(file, "wb") as writable:
        writable.truncate(SIZE)
        for offset, content in writes:
            writable.seek(offset)
            writable.write(content)
    return file.read_bytes()


def has_nameless_files(directory: Path) -> bool:
    try:
        os.close(os.open(directory, os.O_TMPFILE | os.O_RDWR))
    except OSError:
        return False
    return True


def test_a_file_is_tried_for_its_size_and_not_left_behind(tmp_path: Path) -> None:
    if not has_nameless_files(tmp_path):
        pytest.skip("this file system has no files without a name")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, before[1]))  # Python has the signal ignored
    try:
        assert can_hold(tmp_path, LIMIT)
        assert not can_hold(tmp_path, LIMIT + 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(tmp_path) == []


def test_what_cannot_be_tried_is_no_refusal(tmp_path: Path) -> None:
    assert can_hold(tmp_path / "nowhere", SIZE)


@given(writes=WRITES, offset=OFFSETS, size=st.integers(1, SIZE))
def test_zero_means_that_every_byte_is(file: Path, writes: list[tuple[int, bytes]], offset: int, size: int) -> None:
    content = fill(file, writes)
    assert is_zero(file, offset, size) == (not content[offset : offset + size].strip(b"\0"))


@given(writes=WRITES, offset=OFFSETS, size=st.integers(1, SIZE))
def test_clearing_leaves_the_rest_alone(file: Path, writes: list[tuple[int, bytes]], offset: int, size: int) -> None:
    content = fill(file, writes)
    size = min(size, SIZE - offset)
    clear(file, offset, size)
    assert file.read_bytes() == content[:offset] + bytes(size) + content[offset + size :]


def test_cleared_part_takes_no_space(file: Path) -> None:
    fill(file, [(0, b"x" * SIZE)])
    clear(file, BLOCK, SIZE - BLOCK)
    assert file.stat().st_blocks * 512 <= 2 * BLOCK


def test_zeros_are_written_where_there_can_be_no_holes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_holes(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(sparse, "_punch", no_holes)  # there is no such file system here
    fill(file, [(0, b"x" * SIZE)])
    clear(file, BLOCK, SIZE - 2 * BLOCK)
    assert file.read_bytes() == b"x" * BLOCK + bytes(SIZE - 2 * BLOCK) + b"x" * BLOCK
    assert is_zero(file, BLOCK, SIZE - 2 * BLOCK)


def test_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        is_zero(tmp_path / "none", 0, 1)
