"""Commands with input on an upgraded connection: raw sockets, real processes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from plugbay.cli.kubectl.client import NodeClient
from plugbay.node.api.streams.frames import ExecChannel, Frame, FrameDecoder
from plugbay.node.config import NodeConfig
from plugbay.node.run import run_node
from plugbay.ops.clock import SystemClock
from plugbay.printers import v1

PODS = "/api/v1/namespaces/default/pods"
DEADLINE_S = 20
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "command": ["sleep", "1000"]}]},
}


class Session:
    """A client that has been upgraded."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = FrameDecoder()
        self.output = b""
        self.errors = b""
        self.exit: Any = None

    def send(self, channel: ExecChannel, payload: bytes = b"") -> None:
        self._writer.write(Frame(channel, payload).encode())

    def resize(self, width: int, height: int) -> None:
        self.send(ExecChannel.RESIZE, json.dumps({"width": width, "height": height}).encode())

    async def break_off_stuck(self) -> None:
        """Send more than is taken, and go as one that is killed."""
        for _ in range(6):
            self.send(ExecChannel.STDIN, b"x" * 1_000_000)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await self._writer.drain()
        self._writer.transport.abort()

    async def until(self, text: bytes) -> None:
        while text not in self.output:
            assert await self._read(), f"ended before {text!r}: {self.output!r} {self.errors!r}"

    async def finish(self) -> None:
        while await self._read():
            pass

    async def until_exit(self) -> None:
        """For a command that leaves input of ours unread: behind its exit code comes a reset, and no end."""
        while self.exit is None:
            assert await self._read(), f"ended without an exit code: {self.output!r} {self.errors!r}"

    async def _read(self) -> bool:
        async with asyncio.timeout(DEADLINE_S):
            chunk = await self._reader.read(65536)
        for each in self._decoder.feed(chunk):
            match each.channel:
                case ExecChannel.STDOUT:
                    self.output += each.payload
                case ExecChannel.STDERR:
                    self.errors += each.payload
                case ExecChannel.EXIT:
                    self.exit = json.loads(each.payload)["exitCode"]
        return bool(chunk)


@asynccontextmanager
async def node_with_pod(root: Path) -> AsyncIterator[Path]:
    """The control socket of a node whose pod runs."""
    config = NodeConfig(root, name="n1")
    client = NodeClient(root)

    def create() -> None:
        with client.watch(PODS) as events:
            client.create(PODS, POD)
            next(event for event in events if v1.text(event.object, "status", "phase") == "Running")

    def delete() -> None:
        with client.watch(PODS) as events:
            client.delete(f"{PODS}/p")
            next(event for event in events if event.type == "DELETED")

    stop, ready = asyncio.Event(), asyncio.Event()
    async with asyncio.timeout(3 * DEADLINE_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(
            run_node(config, environ=os.environ, clock=SystemClock(), stop=stop, ready=lambda *_: ready.set())
        )
        await ready.wait()
        try:
            await asyncio.to_thread(create)
            yield config.control_socket
            await asyncio.to_thread(delete)
        finally:
            stop.set()


@asynccontextmanager
async def session(socket: Path, *command: str, tty: bool = False) -> AsyncIterator[Session]:
    reader, writer = await asyncio.open_unix_connection(socket)
    body = json.dumps({"command": command}).encode()
    writer.write(
        f"POST {PODS}/p/exec?stdin=true&tty={str(tty).lower()} HTTP/1.1\r\nHost: localhost\r\n"
        f"Connection: Upgrade\r\nUpgrade: plugbay-exec\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    async with asyncio.timeout(DEADLINE_S):
        head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n"), head
    try:
        yield Session(reader, writer)
    finally:
        writer.close()


async def test_input_goes_in_and_its_end_too(sockets: Path) -> None:
    async with (
        node_with_pod(sockets / "node") as socket,
        session(socket, "sh", "-c", "wc -c; echo no >&2; exit 5") as run,
    ):
        for _ in range(20):
            run.send(ExecChannel.STDIN, b"x" * 50_000)
        run.send(ExecChannel.STDIN)
        await run.finish()
        assert (run.output.strip(), run.errors, run.exit) == (b"1000000", b"no\n", 5)


async def test_a_terminal_is_the_commands_own_and_has_our_size(sockets: Path) -> None:
    # a signal may end a shell's `read`, which is then no end of the input
    read_two = "for line in 1 2; do until read line; do :; done; echo got $line; done"
    script = f"tty; stty size; trap 'stty size' WINCH; echo ready; {read_two}"
    async with node_with_pod(sockets / "node") as socket, session(socket, "sh", "-c", script, tty=True) as run:
        await run.until(b"ready")
        assert b"/dev/pts/" in run.output
        run.resize(132, 43)
        run.send(ExecChannel.STDIN, b"hello\r")
        await run.until(b"got hello\r\n")
        run.send(ExecChannel.STDIN, b"again\r")
        await run.until(b"43 132")
        run.send(ExecChannel.STDIN)
        await run.finish()
        assert (run.errors, run.exit) == (b"", 0)


async def test_control_c_reaches_the_command(sockets: Path) -> None:
    # No shell: one that is about to start a program may take the signal for itself and go on.
    waiting = "import signal; signal.signal(2, signal.SIG_DFL); print('up', flush=True); signal.pause()"
    async with (
        node_with_pod(sockets / "node") as socket,
        session(socket, sys.executable, "-I", "-S", "-c", waiting, tty=True) as run,
    ):
        await run.until(b"up")
        run.send(ExecChannel.STDIN, b"\x03")
        await run.finish()
        assert run.exit == 130


async def test_a_client_that_goes_takes_the_command_along(sockets: Path) -> None:
    async with node_with_pod(sockets / "node") as socket:
        async with session(socket, "sh", "-c", "echo $$; exec sleep 1000") as run:
            await run.until(b"\n")
            process = os.pidfd_open(int(run.output))
        ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(process, ended.set)
        async with asyncio.timeout(DEADLINE_S):
            await ended.wait()
        asyncio.get_running_loop().remove_reader(process)
        os.close(process)


async def test_a_client_that_goes_with_its_input_stuck_takes_the_command_along(sockets: Path) -> None:
    async with node_with_pod(sockets / "node") as socket:
        async with session(socket, "sh", "-c", "echo $$; exec sleep 1000") as run:
            await run.until(b"\n")
            process = os.pidfd_open(int(run.output))
            await run.break_off_stuck()
        ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(process, ended.set)
        async with asyncio.timeout(DEADLINE_S):
            await ended.wait()
        asyncio.get_running_loop().remove_reader(process)
        os.close(process)


async def test_a_window_changes_its_size_while_input_is_stuck(sockets: Path) -> None:
    script = "stty raw; trap 'stty size; exit' WINCH; echo ready; while true; do sleep 0.1; done"
    async with node_with_pod(sockets / "node") as socket, session(socket, "sh", "-c", script, tty=True) as run:
        await run.until(b"ready")
        run.send(ExecChannel.STDIN, b"x" * 150_000)
        run.resize(132, 43)
        await run.until(b"43 132")


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "terminal"])
async def test_a_missing_program_is_told_like_in_a_shell(sockets: Path, tty: bool) -> None:
    async with node_with_pod(sockets / "node") as socket, session(socket, "no-such-program", tty=tty) as run:
        await run.finish()
        assert b"no-such-program" in run.output + run.errors
        assert run.exit == 126


async def test_a_command_that_reads_nothing_ends_without_its_input(sockets: Path) -> None:
    async with node_with_pod(sockets / "node") as socket, session(socket, "true") as run:
        for _ in range(100):
            run.send(ExecChannel.STDIN, b"x" * 10_000)
        await run.until_exit()
        assert run.exit == 0


async def test_what_no_client_may_say_ends_the_session(sockets: Path) -> None:
    async with node_with_pod(sockets / "node") as socket, session(socket, "sleep", "1000") as run:
        run.send(ExecChannel.STDERR, b"?")
        await run.finish()
        assert (run.errors, run.exit) == (b"error: a client has no channel 2\n", None)


async def test_input_wants_an_upgraded_connection(sockets: Path) -> None:
    async with node_with_pod(sockets / "node") as socket:
        reader, writer = await asyncio.open_unix_connection(socket)
        writer.write(
            f"POST {PODS}/p/exec?stdin=true HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            'Content-Length: 21\r\n\r\n{"command": ["true"]}'.encode()
        )
        async with asyncio.timeout(DEADLINE_S):
            head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 426 Upgrade Required\r\n")
        assert b"Upgrade: plugbay-exec" in head
        writer.close()
