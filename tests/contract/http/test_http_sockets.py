"""The sockets that the HTTP server makes, finds and leaves."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from pathlib import Path

import pytest

from plugbay.errors import PathTooLong, PathUnusable, SocketInUse
from plugbay.ops.http import serve_http
from plugbay.ops.listening import UnixAddress
from tests.contract.rigs.http_requests import DEADLINE_S, Site, ask, path

__all__ = ["path"]


async def test_the_socket_is_for_its_owner_only_and_goes_with_the_server(path: Path) -> None:
    before = os.umask(0)
    try:
        async with serve_http(Site().router, UnixAddress(path)):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(before)
    assert not path.exists()


async def test_a_leftover_socket_is_replaced(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path)):
        assert (await ask(path, "GET", "/echo/1/log")).status == 200


async def test_a_second_server_is_refused_and_the_first_goes_on(path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), serve_http(Site().router, UnixAddress(path)):
        with pytest.raises(SocketInUse, match=f"another program is listening at {path}"):
            async with serve_http(Site().router, UnixAddress(path)):
                pytest.fail("two servers on one socket")
        assert (await ask(path, "GET", "/echo/1/log")).status == 200


async def test_a_server_whose_queue_is_full_counts_as_one(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        busy.bind(str(path))
        busy.listen(0)
        waiting.connect(str(path))
        with pytest.raises(SocketInUse):
            async with serve_http(Site().router, UnixAddress(path)):
                pytest.fail("took over a socket in use")


async def test_a_file_that_is_no_socket_is_left_alone(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(PathUnusable, match="exists and is not a socket"):
        async with serve_http(Site().router, UnixAddress(path)):
            pytest.fail("took the place of a file")
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    ("name", "error"), [("x" * 108, PathTooLong), ("absent/s", PathUnusable)], ids=["too long", "no directory"]
)
async def test_a_path_that_cannot_be_bound_is_named(path: Path, name: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=name):
        async with serve_http(Site().router, UnixAddress(path.parent / name)):
            pytest.fail("listening nowhere")


async def test_the_socket_of_a_successor_is_not_removed(path: Path) -> None:
    async with serve_http(Site().router, UnixAddress(path)):
        path.unlink()
        with socket.socket(socket.AF_UNIX) as successor:
            successor.bind(str(path))
    assert path.exists()
