from __future__ import annotations

import asyncio
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from plugbay.errors import PathUnusable
from plugbay.wire.sockets import connected, listening

DEADLINE_S = 10
OFTEN = 200


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("no_umask")
def test_a_socket_is_its_owners_alone_from_the_first_moment_on(sockets: Path) -> None:
    seen: set[int] = set()
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            try:
                seen.add(stat.S_IMODE((sockets / "s").stat().st_mode))
            except FileNotFoundError:
                continue

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(OFTEN):
            with listening(sockets / "s"):
                seen.add(stat.S_IMODE((sockets / "s").stat().st_mode))
    finally:
        ended.set()
        looking.join()
    assert seen == {0o600}
    assert os.umask(0) == 0


def test_its_owner_may_connect_under_any_umask(sockets: Path) -> None:
    before = os.umask(0o777)
    try:
        with listening(sockets / "s"):
            assert stat.S_IMODE((sockets / "s").stat().st_mode) == 0o600
    finally:
        os.umask(before)


def test_the_file_goes_with_the_block_unless_another_process_has_put_it_there(sockets: Path) -> None:
    path = sockets / "s"
    with listening(path):
        assert path.is_socket()
    assert not path.exists()
    with listening(path), socket.socket(socket.AF_UNIX) as other:
        path.unlink()
        other.bind(str(path))
    assert path.is_socket()


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda path: path.symlink_to("elsewhere")])
def test_other_files_are_not_replaced(sockets: Path, make: Callable[[Path], None]) -> None:
    make(sockets / "s")
    with pytest.raises(PathUnusable, match="something is there that is not a socket"), listening(sockets / "s"):
        pass
    assert os.path.lexists(sockets / "s")


async def test_a_full_queue_is_waited_for(sockets: Path) -> None:
    path = sockets / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(0)
        first = await connected(path)
        second = asyncio.create_task(connected(path))
        await asyncio.sleep(0.05)
        assert not second.done()
        accepted = [listener.accept()[0]]
        async with asyncio.timeout(DEADLINE_S):
            other = await second
        accepted.append(listener.accept()[0])
        for end, theirs in zip((first, other), accepted, strict=True):
            end.send(b"x")
            assert theirs.recv(1) == b"x"
        for each in (first, other, *accepted):
            each.close()


async def test_a_dial_that_ends_early_leaves_no_socket_open(sockets: Path) -> None:
    path = sockets / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(0)
        with await connected(path):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await connected(path)


@pytest.mark.parametrize("name", ["absent", "stale"])
async def test_no_listener_is_an_error(sockets: Path, name: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(sockets / "stale"))
    with pytest.raises(OSError, match=r"No such file|refused"):
        await connected(sockets / name)
