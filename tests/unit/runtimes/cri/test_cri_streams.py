"""Commands with input, streamed by an engine over a real socket."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import aclosing

import pytest

from plugbay.errors import ExecFailed
from plugbay.runtimes.cri.streams import Streamed, exit_code_of, run_streamed
from plugbay.runtimes.exec_input import Console, ExecInput, TerminalSize
from plugbay.runtimes.port import ContainerId, ExecExit, ExecOutput, ExecStream
from tests.unit.runtimes.cri.stream_server import DEADLINE_S, Peer, streaming

ID = ContainerId("c1")


async def run(url: str, given: ExecInput, streamed: Streamed = Streamed.COMMAND) -> list[ExecOutput | ExecExit]:
    async with asyncio.timeout(DEADLINE_S):
        return [item async for item in run_streamed(ID, url, given, streamed)]


async def test_input_output_and_exit_code_travel() -> None:
    async def behave(peer: Peer) -> None:
        await peer.accept()
        await peer.until_streams(4)
        await peer.until_end("stdin")
        assert peer.input == {"stdin": b"hello"}
        peer.print("stdout", b"out")
        peer.print("stderr", b"err")
        peer.status(
            status="Failure", reason="NonZeroExitCode", details={"causes": [{"reason": "ExitCode", "message": "7"}]}
        )
        peer.reset("error")
        assert peer.head.startswith("POST /exec/token?x=y HTTP/1.1\r\n")
        assert "X-Stream-Protocol-Version: v4.channel.k8s.io" in peer.head

    given = ExecInput(Console.PIPES)
    async with streaming(behave) as url, asyncio.TaskGroup() as tasks:
        items = tasks.create_task(run(url, given))
        await given.send(b"hello")
        await given.end()
    assert items.result() == [
        ExecOutput(ExecStream.STDOUT, b"out"),
        ExecOutput(ExecStream.STDERR, b"err"),
        ExecExit(7),
    ]


async def test_a_terminal_has_a_size_and_ends_with_a_key() -> None:
    async def behave(peer: Peer) -> None:
        await peer.accept()
        await peer.until("resize", b'{"Width": 80, "Height": 24}\n')
        await peer.until("stdin", b"\x04")
        assert peer.streams.keys() == {"error", "stdin", "stdout", "resize"}
        assert "stdin" not in peer.ended
        peer.status(status="Success")

    given = ExecInput(Console.TERMINAL)
    given.resize(TerminalSize(80, 24))  # before it has started
    async with streaming(behave) as url, asyncio.TaskGroup() as tasks:
        items = tasks.create_task(run(url, given))
        await given.end()
    assert items.result() == [ExecExit(0)]


@pytest.mark.parametrize("console", Console)
async def test_who_leaves_ends_the_input(console: Console) -> None:
    async def behave(peer: Peer) -> None:
        await peer.accept()
        await peer.until_streams(4)
        peer.print("stdout", b"first")
        await peer.until_end("stdin")
        assert peer.input.get("stdin", b"") == (b"\x03" if console is Console.TERMINAL else b"")
        await peer.until_gone()

    async with streaming(behave) as url, aclosing(run_streamed(ID, url, ExecInput(console))) as items:
        assert await anext(items) == ExecOutput(ExecStream.STDOUT, b"first")


@pytest.mark.parametrize("console", Console)
async def test_a_client_that_leaves_a_container_says_nothing(console: Console) -> None:
    async def behave(peer: Peer) -> None:
        await peer.accept()
        await peer.until_streams(4)
        peer.print("stdout", b"first")
        await peer.until_gone()
        assert (peer.input, peer.ended) == ({}, set())

    given = ExecInput(console)
    async with streaming(behave) as url, aclosing(run_streamed(ID, url, given, Streamed.CONTAINER)) as items:
        assert await anext(items) == ExecOutput(ExecStream.STDOUT, b"first")


async def test_a_client_that_gives_no_input_opens_no_stream_for_it() -> None:
    async def behave(peer: Peer) -> None:
        await peer.accept()
        await peer.until("resize", b'{"Width": 80, "Height": 24}\n')
        assert peer.streams.keys() == {"error", "stdout", "resize"}
        peer.status(status="Success")

    given = ExecInput(Console.TERMINAL)
    given.resize(TerminalSize(80, 24))
    async with streaming(behave) as url, asyncio.TaskGroup() as tasks:
        items = tasks.create_task(run(url, given, Streamed.CONTAINER_OUTPUT))
        await given.send(b"lost")
        await given.end()
    assert items.result() == [ExecExit(0)]


async def test_pings_are_answered_and_other_frames_passed_over() -> None:
    async def behave(peer: Peer) -> None:
        await peer.accept()
        await peer.until_streams(4)
        peer.raw(struct.pack(">III", 0x80030006, 4, 2))  # a ping
        peer.raw(struct.pack(">II", 0x80030004, 4) + bytes(4))  # settings
        peer.raw(struct.pack(">II", 0x80030007, 8) + bytes(8))  # it takes no more streams
        while not peer.pings:
            assert await peer.read()
        peer.status(status="Success")

    async with streaming(behave) as url:
        assert await run(url, ExecInput(Console.PIPES)) == [ExecExit(0)]


async def test_much_output_waits_for_who_reads_it() -> None:
    chunk = b"x" * 100_000

    async def behave(peer: Peer) -> None:
        await peer.accept()
        await peer.until_streams(4)
        for _ in range(50):
            peer.print("stdout", chunk)
        peer.status(status="Success")

    async with streaming(behave) as url:
        size = 0
        async for item in run_streamed(ID, url, ExecInput(Console.PIPES)):
            if isinstance(item, ExecOutput):
                size += len(item.chunk)
        assert size == 50 * len(chunk)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(b"HTTP/1.1 404 Not Found\r\n\r\n", "refuses to stream: 404 Not Found", id="refused"),
        pytest.param(b"SSH-2.0-x\r\n\r\n", "refuses to stream: SSH-2.0-x", id="no-http"),
        pytest.param(b"x" * 70_000, "something else than HTTP", id="endless"),
        pytest.param(b"HTTP/1.1 101 Yes\r\n\r\n\x80\x02\0\x01\0\0\0\0", "is not SPDY/3", id="other-version"),
        pytest.param(b"HTTP/1.1 10", "broke the connection off", id="broken-off"),
    ],
)
async def test_an_engine_that_does_not_stream_is_told_of(answer: bytes, problem: str) -> None:
    async def behave(peer: Peer) -> None:
        await peer.accept(answer)
        peer.close()

    async with streaming(behave) as url:
        with pytest.raises(ExecFailed, match=problem):
            await run(url, ExecInput(Console.PIPES))


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 101 Switching"], ids=["nothing", "half of a head"])
async def test_an_engine_that_does_not_answer_is_given_up(answer: bytes) -> None:
    async def behave(peer: Peer) -> None:
        await peer.accept(answer)
        await peer.until_gone()

    async with streaming(behave) as url:
        with pytest.raises(ExecFailed, match=r"takes connections at 127\.0\.0\.1:\d+, and answers none within 0\.1 s"):
            await anext(run_streamed(ID, url, ExecInput(Console.PIPES), answer_s=0.1))


async def test_a_command_that_does_not_run_says_why() -> None:
    async def behave(peer: Peer) -> None:
        await peer.accept()
        await peer.until_streams(4)
        peer.status(status="Failure", reason="InternalError", message="no such program", code=500)

    async with streaming(behave) as url:
        with pytest.raises(ExecFailed, match="no such program"):
            await run(url, ExecInput(Console.PIPES))


async def test_an_address_on_loopback_that_nobody_listens_at_is_explained() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/exec/t"
        with pytest.raises(
            ExecFailed, match="connection refused; it listens on loopback, which can be reached only from"
        ):
            await run(url, ExecInput(Console.PIPES))


@pytest.mark.parametrize("url", ["", "https://h:1/x", "http://h/x", "http://:1/x", "http://h:x/", "http://[h:1/x"])
async def test_urls_of_other_kinds_are_refused(url: str) -> None:
    with pytest.raises(ExecFailed, match="reads streams at http://HOST:PORT only"):
        await run(url, ExecInput(Console.PIPES))


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        pytest.param(b"", "does not say how", id="empty"),
        pytest.param(b"[]", "does not say how", id="list"),
        pytest.param(b'{"status": "Failure"}', "does not say why", id="no-reason"),
        pytest.param(b'{"reason": "NonZeroExitCode", "details": {"causes": [7]}}', "not say why", id="no-code"),
    ],
)
def test_a_status_that_says_nothing_is_no_exit_code(status: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        exit_code_of(status)
