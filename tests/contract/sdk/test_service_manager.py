"""What a service manager such as systemd hears of ``plugbay serve``, in the datagrams that it reads."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from plugbay.kubelet.paths import KubeletPaths
from plugbay.ops.service_manager import ServiceManager
from plugbay.testing.fakes.kubelet import fake_kubelet

DEADLINE_S = 30
PLUGIN = """
from plugbay import Device, plugin

@plugin("example.com/gopher")
def gophers():
    return [Device("g")]
"""


class Listener:
    """The end of the manager: a socket in a file, or an abstract one."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(address.replace("@", "\0", 1))

    def close(self) -> None:
        self._socket.close()

    async def until(self, line: str) -> list[str]:
        """Wait for a message with a line that begins so; returns all that came up to it, as lines."""
        heard: list[str] = []
        async with asyncio.timeout(DEADLINE_S):
            while not any(each.startswith(line) for each in heard):
                heard += (await asyncio.get_running_loop().sock_recv(self._socket, 4096)).decode().splitlines()
        return heard


@asynccontextmanager
async def served(root: Path, listener: Listener) -> AsyncIterator[asyncio.subprocess.Process]:
    (root / "gophers.py").write_text(PLUGIN)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "plugbay", "--root", str(root), "serve", str(root / "gophers.py")),
        env={**os.environ, "NOTIFY_SOCKET": listener.address},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
        listener.close()


async def test_ready_means_registered_and_read(sockets: Path) -> None:
    listener = Listener(str(sockets / "notify"))
    async with served(sockets, listener) as process:
        assert "READY=1" not in await listener.until("STATUS=example.com/gopher: starting")
        async with fake_kubelet(KubeletPaths(sockets)):
            assert "STATUS=registered: example.com/gopher" in await listener.until("READY=1")
            process.send_signal(signal.SIGHUP)
            told = await listener.until("READY=1")
            assert "RELOADING=1" in told
            assert any(each.startswith("MONOTONIC_USEC=") for each in told)
        lost = await listener.until("STATUS=example.com/gopher: serving")  # the kubelet has ended
        assert "READY=1" not in lost
        process.terminate()
        assert "STOPPING=1" in await listener.until("STOPPING")
        assert await asyncio.wait_for(process.wait(), DEADLINE_S) == 0


async def test_a_node_is_ready_when_it_answers(sockets: Path) -> None:
    name = f"@plugbay-test-{os.getpid()}"
    listener = Listener(name)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "plugbay", "--root", str(sockets), "node", "up", "--runtime", "process"),
        env={**os.environ, "NOTIFY_SOCKET": name},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await listener.until("READY=1")
        assert (sockets / "plugbay.sock").is_socket()
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), DEADLINE_S)
        listener.close()


def test_without_a_manager_nothing_is_told() -> None:
    environ = {"NOTIFY_SOCKET": "/run/nobody", "PATH": "/bin"}
    assert ServiceManager.of(environ).listens
    assert environ == {"PATH": "/bin"}  # no child takes it for its own
    assert not ServiceManager.of(environ).listens


def test_a_manager_that_does_not_answer_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    ServiceManager(str(tmp_path / "gone")).ready("all is well")
    (record,) = caplog.records
    assert "was not told" in record.getMessage()
