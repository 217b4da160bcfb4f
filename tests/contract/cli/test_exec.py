"""``pod exec -i -t`` on pipes and on real terminals, against a server that plays the node's part."""

from __future__ import annotations

import asyncio
import json
import signal
import termios
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection
from wsproto.utilities import generate_accept_token

from plugbay.node.api.streams.exec_status import exit_status, failed_status
from tests.contract.rigs.terminals import Terminal, terminal

if TYPE_CHECKING:
    from tests.contract.conftest import Plugbay

DEADLINE_S = 30
POD = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c"}]}}
EXEC = ("pod", "exec", "web", "-i", "--", "cat")
OUTPUT = ("pod", "exec", "web", "--", "cat")
EXEC_TTY = ("pod", "exec", "web", "-it", "--", "sh")
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
END_OF_INPUT = (CLOSE, bytes([STDIN]))
Message = tuple[int, bytes]
"""Its channel, and what it holds."""


class Peer:
    """The node's end of an upgraded connection."""

    def __init__(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.head = head
        self._reader = reader
        self._writer = writer
        self._protocol = Connection(ConnectionType.SERVER)
        self._messages: list[Message] = []
        self._part = b""

    async def next(self) -> Message:
        while not self._messages:
            chunk = await self._reader.read(65536)
            assert chunk, "the command ended the connection"
            self._protocol.receive_data(chunk)
            for event in self._protocol.events():
                assert isinstance(event, BytesMessage), event
                self._part += event.data
                if event.message_finished:
                    self._messages.append((self._part[0], self._part[1:]))
                    self._part = b""
        return self._messages.pop(0)

    async def send(self, channel: int, payload: bytes) -> None:
        await self.send_event(BytesMessage(bytes([channel]) + payload))

    async def send_event(self, event: BytesMessage | CloseConnection) -> None:
        self._writer.write(self._protocol.send(event))
        await self._writer.drain()

    async def exit(self, code: int) -> None:
        await self.send(ERROR, json.dumps(exit_status(code)).encode())
        await self.send_event(CloseConnection(1000))

    def abort(self) -> None:
        self._writer.transport.abort()


SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Protocol: v5.channel.k8s.io\r\nSec-WebSocket-Accept: %b\r\n\r\n"
)


def message(channel: int, payload: bytes) -> bytes:
    """As a node sends it."""
    return Connection(ConnectionType.SERVER).send(BytesMessage(bytes([channel]) + payload))


Play = Callable[[Peer], Awaitable[None]]


@asynccontextmanager
async def node(plugbay: Plugbay, play: Play, *, greeting: bytes = b"", accepts: bool = True) -> AsyncIterator[None]:
    """Answers for the pod, and plays its part in ``exec``; ``greeting`` comes in one piece with the answer's head."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        if "/exec?" not in head:
            body = json.dumps(POD).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        else:
            key = head.partition("Sec-WebSocket-Key: ")[2].split("\r\n")[0].encode()
            accept = generate_accept_token(key) if accepts else b"another"
            writer.write(SWITCH % accept + greeting)
            await play(Peer(head, reader, writer))
        writer.close()

    server = await asyncio.start_unix_server(serve, plugbay.root / "plugbay.sock")
    try:
        async with asyncio.timeout(DEADLINE_S):
            yield
    finally:
        server.close()


@asynccontextmanager
async def on_terminal(plugbay: Plugbay, tty: Terminal) -> AsyncIterator[asyncio.subprocess.Process]:
    """The command on a terminal; what it prints goes there too."""
    streams = {"stdin": tty.slave, "stdout": tty.slave, "stderr": tty.slave}
    async with plugbay.start(*EXEC_TTY, **streams) as process:
        yield process


async def echo(peer: Peer) -> None:
    """Give back what is typed, as ``cat`` does."""
    while (message := await peer.next()) != END_OF_INPUT:
        channel, content = message
        assert channel == STDIN
        await peer.send(STDOUT, content)
    await peer.send(STDERR, b"bye\n")
    await peer.exit(5)


async def test_input_and_output_go_both_ways_whole(plugbay: Plugbay) -> None:
    text = "".join(f"line {number}\n" for number in range(100_000))
    async with node(plugbay, echo):
        done = await plugbay(*EXEC, given=text)
    assert done.out == text
    assert (done.code, done.err) == (5, "bye\ncommand terminated with exit code 5\n")


async def test_the_command_may_end_before_its_input(plugbay: Plugbay) -> None:
    async def stop_reading(peer: Peer) -> None:
        await peer.send(STDOUT, b"enough")
        await peer.exit(0)

    async with node(plugbay, stop_reading):
        assert await plugbay(*EXEC, given="x" * 10_000_000) == (0, "enough", "")


async def test_what_comes_together_with_the_answer_is_not_lost(plugbay: Plugbay) -> None:
    async def quiet(peer: Peer) -> None:
        assert "upgrade: websocket" in peer.head.lower()
        assert "/exec?command=cat&container=c&stdin=true&stdout=true&stderr=true HTTP" in peer.head

    greeting = message(STDOUT, b"hello\n") + message(ERROR, json.dumps(exit_status(0)).encode())
    async with node(plugbay, quiet, greeting=greeting):
        assert await plugbay(*EXEC) == (0, "hello\n", "")


async def test_without_a_terminal_t_is_only_a_wish(plugbay: Plugbay) -> None:
    async def check(peer: Peer) -> None:
        assert "tty" not in peer.head
        await peer.exit(0)

    async with node(plugbay, check):
        note = "Unable to use a TTY - input is not a terminal or the right kind of file\n"
        assert await plugbay(*EXEC_TTY) == (0, "", note)


async def test_a_connection_that_breaks_off_is_told(plugbay: Plugbay) -> None:
    async def vanish(peer: Peer) -> None:
        peer.abort()

    async with node(plugbay, vanish):
        done = await plugbay(*EXEC)
    assert done.code == 1
    assert done.err.startswith(f"plugbay: error: no plugbay node answers at {plugbay.root}/plugbay.sock (")


async def test_all_output_is_read_before_the_end(plugbay: Plugbay) -> None:
    async def end_early(peer: Peer) -> None:
        await peer.send(ERROR, json.dumps(exit_status(7)).encode())
        await peer.send(STDOUT, b"late\n")
        await peer.send_event(CloseConnection(1000))

    async with node(plugbay, end_early):
        for command in (EXEC, OUTPUT):
            assert await plugbay(*command) == (7, "late\n", "command terminated with exit code 7\n")


async def test_what_cannot_be_run_is_told_like_in_a_shell(plugbay: Plugbay) -> None:
    async def refuse(peer: Peer) -> None:
        await peer.send(ERROR, json.dumps(failed_status("there is no cat")).encode())
        await peer.send_event(CloseConnection(1000))

    async with node(plugbay, refuse):
        for command in (EXEC, OUTPUT):
            told = "error: there is no cat\ncommand terminated with exit code 126\n"
            assert await plugbay(*command) == (126, "", told)


async def test_an_end_without_an_exit_code_is_an_error(plugbay: Plugbay) -> None:
    async def leave(peer: Peer) -> None:
        await peer.send(STDOUT, b"some")
        await peer.send_event(CloseConnection(1002, "a client has no channel 2"))

    async with node(plugbay, leave):
        for command in (EXEC, OUTPUT):
            done = await plugbay(*command)
            assert (done.code, done.out) == (1, "some")
            assert "it did not say how the command ended: a client has no channel 2)" in done.err


async def test_another_answer_to_the_handshake_is_an_error(plugbay: Plugbay) -> None:
    async def quiet(peer: Peer) -> None:
        pass

    async with node(plugbay, quiet, accepts=False):
        done = await plugbay(*OUTPUT)
    assert (done.code, done.out) == (1, "")
    assert "it does not speak WebSocket as kubectl does" in done.err


async def test_without_wsproto_it_is_said_what_to_install(
    plugbay: Plugbay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wsproto.py").write_text("raise ModuleNotFoundError(\"No module named 'wsproto'\", name='wsproto')\n")

    async def quiet(peer: Peer) -> None:
        pytest.fail("the command was asked for")

    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    async with node(plugbay, quiet):
        done = await plugbay(*OUTPUT)
    assert (done.code, done.out) == (2, "")
    problem = "running commands in containers needs the package wsproto; install it with: pip install wsproto"
    assert done.err == f"plugbay: error: {problem}\n"


async def test_words_that_are_not_utf8_are_refused(plugbay: Plugbay) -> None:
    done = await plugbay("pod", "exec", "web", "--", "echo", "\udcff")
    assert (done.code, done.err) == (2, "plugbay: error: the words of the command must be UTF-8\n")


async def test_keys_and_sizes_of_a_terminal_reach_the_command(plugbay: Plugbay) -> None:
    seen: asyncio.Queue[Message] = asyncio.Queue()

    async def record(peer: Peer) -> None:
        assert "stdin=true&tty=true" in peer.head
        while True:
            message = await peer.next()
            seen.put_nowait(message)
            if message == (STDIN, b"q"):
                break
        await peer.exit(3)

    with terminal() as tty:
        before = tty.mode()
        async with node(plugbay, record), on_terminal(plugbay, tty) as process:
            assert await seen.get() == (RESIZE, b'{"Width": 80, "Height": 24}')
            assert tty.is_raw
            tty.type(b"\x03")  # Ctrl-C
            assert await seen.get() == (STDIN, b"\x03")
            termios.tcsetwinsize(tty.master, (50, 132))
            process.send_signal(signal.SIGWINCH)
            assert await seen.get() == (RESIZE, b'{"Width": 132, "Height": 50}')
            tty.type(b"q")
            assert await process.wait() == 3
        assert tty.mode() == before


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGQUIT, 131), (signal.SIGINT, 130)],
    ids=lambda value: value.name if isinstance(value, signal.Signals) else "",
)
async def test_a_signal_leaves_the_terminal_as_it_was(plugbay: Plugbay, number: signal.Signals, code: int) -> None:
    started = asyncio.Event()

    async def wait(peer: Peer) -> None:
        await peer.next()
        started.set()
        with pytest.raises(AssertionError, match="ended the connection"):
            await peer.next()

    with terminal() as tty:
        before = tty.mode()
        async with node(plugbay, wait), on_terminal(plugbay, tty) as process:
            await started.wait()
            assert tty.is_raw
            process.send_signal(number)
            assert await process.wait() == code
        assert tty.mode() == before


async def test_the_nodes_end_leaves_the_terminal_as_it_was(plugbay: Plugbay) -> None:
    async def vanish(peer: Peer) -> None:
        await peer.next()
        peer.abort()

    with terminal() as tty:
        before = tty.mode()
        async with node(plugbay, vanish), on_terminal(plugbay, tty) as process:
            assert await process.wait() == 1
        assert tty.mode() == before
