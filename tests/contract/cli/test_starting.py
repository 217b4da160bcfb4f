"""Commands that come before their node is ready, as when all lines of a README are pasted at once."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from plugbay.cli.arguments.starting import address_of, announced_start, wait_for_start
from plugbay.cli.main import run
from plugbay.cli.node import foreground
from tests.contract.conftest import Plugbay

DEADLINE_S = 30


@contextmanager
def pretended_start(root: Path) -> Iterator[socket.socket]:
    """What a node does that starts, in the hands of the test."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as announcement:
        announcement.setblocking(False)
        announcement.bind(address_of(root))
        announcement.listen()
        yield announcement


async def until_somebody_waits(announcement: socket.socket) -> socket.socket:
    async with asyncio.timeout(DEADLINE_S):
        connection, _ = await asyncio.get_running_loop().sock_accept(announcement)
    return connection


async def test_command_waits_for_a_node_that_starts(plugbay: Plugbay) -> None:
    """The node is up already, out of sight: how long a start takes is not the question."""
    control, hidden = plugbay.root / "plugbay.sock", plugbay.root / "hidden.sock"
    async with plugbay.node_up():
        assert wait_for_start(plugbay.root, for_s=DEADLINE_S) is False, "it has started"
        control.rename(hidden)
        with pretended_start(plugbay.root) as announcement:
            async with plugbay.start("node", "get", "-o", "name") as early:
                connection = await until_somebody_waits(announcement)
                hidden.rename(control)
                connection.close()
                out, _ = await asyncio.wait_for(early.communicate(), DEADLINE_S)
        assert (early.returncode, out) == (0, b"node/n1\n")


async def test_command_that_waited_for_a_node_that_failed_says_so(plugbay: Plugbay) -> None:
    with pretended_start(plugbay.root) as announcement:
        async with plugbay.start("node", "get", stderr=asyncio.subprocess.PIPE) as early:
            with await until_somebody_waits(announcement):
                pass
            out, err = await asyncio.wait_for(early.communicate(), DEADLINE_S)
            assert (early.returncode, out) == (1, b"")
            assert b"no plugbay node answers at " in err


def test_node_tells_that_it_starts_until_it_has(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def starts(_: object, started: Callable[[], None]) -> int:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as waiting:
            waiting.connect(address_of(sockets))
            started()
            waiting.settimeout(DEADLINE_S)
            with suppress(ConnectionResetError):
                assert waiting.recv(1) == b""
            seen.append(wait_for_start(sockets, for_s=DEADLINE_S))
        return 0

    monkeypatch.setattr(foreground, "run_node_up", starts)
    assert run(["--root", str(sockets), "node", "up"]) == 0
    assert seen == [False]


def test_nobody_is_waited_for_where_no_node_starts(sockets: Path) -> None:
    assert wait_for_start(sockets, for_s=DEADLINE_S) is False
    with announced_start(sockets / "elsewhere"):
        assert wait_for_start(sockets, for_s=DEADLINE_S) is False


def test_node_that_does_not_come_to_start_is_not_waited_for_without_end(sockets: Path) -> None:
    with announced_start(sockets):
        with pytest.raises(TimeoutError):
            wait_for_start(sockets, for_s=0.05)
        with announced_start(sockets):
            pass  # a second one, which cannot say so
        with pytest.raises(TimeoutError):
            wait_for_start(sockets, for_s=0.05)


def test_root_by_another_name_is_the_same_root(sockets: Path) -> None:
    (sockets / "root").mkdir()
    (sockets / "link").symlink_to("root")
    assert address_of(sockets / "link") == address_of(sockets / "root")
    with announced_start(Path("x" * 200)):
        assert wait_for_start(Path("x" * 200), for_s=DEADLINE_S) is False
