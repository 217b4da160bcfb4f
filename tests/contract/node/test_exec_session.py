"""Commands with input over WebSocket: raw sockets, real processes."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest
from wsproto.events import BytesMessage

from tests.contract.node.test_websocket import CLOSE, ERROR, RESIZE, STDIN, STDOUT, Client, node, running
from tests.contract.rigs.node_run import DEADLINE_S, PODS, Node

__all__ = ["node"]

SIZE = b'{"Width": 132, "Height": 43}'


async def printed(client: Client, until: bytes) -> bytes:
    """Standard output up to the message with ``until`` in it."""
    output = b""
    while until not in output:
        event = await client.next()
        assert isinstance(event, BytesMessage), event
        assert event.data[0] != ERROR, (output, event.data)
        output += bytes(event.data[1:]) if event.data[0] == STDOUT else b""
    return output


async def ended(process: int) -> None:
    """Wait for the end of the process with this pidfd."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(process, over.set)
    async with asyncio.timeout(DEADLINE_S):
        await over.wait()
    loop.remove_reader(process)
    os.close(process)


async def break_off_stuck(client: Client) -> None:
    """Send more than is taken, and go as one that is killed."""
    for _ in range(12):
        client.message(STDIN, b"x" * 500_000)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await client._writer.drain()
    client._writer.transport.abort()


async def test_input_goes_in_and_its_end_too(node: Node) -> None:
    async with running(node, "sh", "-c", "wc -c; echo no >&2; exit 5", stdin="true") as client:
        for _ in range(20):
            client.message(STDIN, b"x" * 50_000)
        client.message(CLOSE, bytes([STDIN]))
        out, err, status = await client.finish()
        assert (out.strip(), err) == (b"1000000", b"no\n")
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "5"}]


async def test_a_terminal_is_the_commands_own_and_has_our_size(node: Node) -> None:
    # a signal may end a shell's `read`, which is then no end of the input
    read_two = "for line in 1 2; do until read line; do :; done; echo got $line; done"
    script = f"tty; stty size; trap 'stty size' WINCH; echo ready; {read_two}"
    async with running(node, "sh", "-c", script, stdin="true", tty="true") as client:
        assert b"/dev/pts/" in await printed(client, b"ready")
        client.message(RESIZE, SIZE)
        client.message(STDIN, b"hello\r")
        shown = await printed(client, b"got hello\r\n")
        client.message(STDIN, b"again\r")
        if b"43 132" not in shown:
            await printed(client, b"43 132")
        client.message(CLOSE, bytes([STDIN]))
        _, err, status = await client.finish()
        assert (err, status["status"]) == (b"", "Success")


async def test_control_c_reaches_the_command(node: Node) -> None:
    # No shell: one that is about to start a program may take the signal for itself and go on.
    waiting = "import signal; signal.signal(2, signal.SIG_DFL); print('up', flush=True); signal.pause()"
    async with running(node, sys.executable, "-I", "-S", "-c", waiting, stdin="true", tty="true") as client:
        await printed(client, b"up")
        client.message(STDIN, b"\x03")
        _, _, status = await client.finish()
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "130"}]


@pytest.mark.parametrize("stuck", [False, True], ids=["idle", "stuck"])
async def test_a_client_that_is_killed_takes_the_command_along(node: Node, stuck: bool) -> None:
    async with running(node, "sh", "-c", "echo $$; exec sleep 1000", stdin="true") as client:
        process = os.pidfd_open(int(await printed(client, b"\n")))
        if stuck:
            await break_off_stuck(client)
    await ended(process)


async def test_a_window_changes_its_size_while_input_is_stuck(node: Node) -> None:
    script = "stty raw; trap 'stty size; exit' WINCH; echo ready; while true; do sleep 0.1; done"
    async with running(node, "sh", "-c", script, stdin="true", tty="true") as client:
        await printed(client, b"ready")
        client.message(STDIN, b"x" * 150_000)
        client.message(RESIZE, SIZE)
        await printed(client, b"43 132")


async def test_a_program_that_is_missing_is_told_with_a_terminal_too(node: Node) -> None:
    async with running(node, "no-such-program", stdin="true", tty="true") as client:
        out, _, status = await client.finish()
        assert b"no-such-program" in out + status.get("message", "").encode()
        assert status["status"] == "Failure"


async def test_a_command_that_reads_nothing_ends_without_its_input(node: Node) -> None:
    async with running(node, "true", stdin="true") as client:
        for _ in range(100):
            client.message(STDIN, b"x" * 10_000)
        _, _, status = await client.finish()
        assert status["status"] == "Success"


async def test_a_command_wants_an_upgraded_connection(node: Node) -> None:
    reader, writer = await asyncio.open_unix_connection(node.config.control_socket)
    writer.write(
        f"POST {PODS}/p/exec HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        'Content-Length: 21\r\n\r\n{"command": ["true"]}'.encode()
    )
    async with asyncio.timeout(DEADLINE_S):
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"Upgrade request required" in answer
    writer.close()
