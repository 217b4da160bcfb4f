"""Commands, logs and ends of containers that a real containerd runs."""

from __future__ import annotations

import asyncio
import signal
import termios
from datetime import datetime

import pytest

from tests.contract.cli.test_exec_on_node import SHELL
from tests.contract.node.test_websocket import CLOSE, RESIZE, STDERR, STDIN, attached
from tests.contract.rigs.terminals import terminal
from tests.e2e.bench_cri import (
    Node,
    id_of,
    pod,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


async def test_exec_logs_and_stop(node: Node) -> None:
    script = "trap 'echo bye; exit 0' TERM; echo 1; printf 2; sleep 0.1; echo 3; while true; do sleep 0.1; done"
    async with node.up():
        await node.apply(
            pod("talks", script, spec={"terminationGracePeriodSeconds": 20}),
            pod("absent", image="localhost/test/none:1", imagePullPolicy="Never"),
        )
        early = await node("pod", "logs", "-f", "absent")
        assert (early.code, 'container "main" in pod "absent" is waiting to start: ' in early.err) == (1, True), early
        await node.wait("talks", "condition=Ready")
        async with node.start("pod", "logs", "-f", "talks") as log:
            await node.line_with(log, "23")
            assert await node.log("talks", "--tail", "1") == "23\n"
            time, _, text = (await node.log("talks", "--tail", "1", "--since", "1h", "--timestamps")).partition(" ")
            assert (text, datetime.fromisoformat(time).tzinfo is not None) == ("23\n", True)
            done = await node("pod", "exec", "talks", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
            assert done == (7, "out\n", "err\ncommand terminated with exit code 7\n")
            done = await node("pod", "exec", "talks", "--", "nope")
            assert done.code == 126
            assert "executable file not found" in done.err
            done = await node("pod", "exec", "-i", "talks", "--", "cat", given="x")
            assert (done.code, "cannot be reached" in done.err) == (126, True), done
            assert "it listens on loopback, which can be reached only from the engine's network namespace" in done.err
            await node("pod", "delete", "talks")
            await node.line_with(log, "bye")


async def test_clients_are_attached_to_containers(node: Node) -> None:
    script = "echo begun; while read line; do echo got $line; echo err $line >&2; done; echo end"
    sized = "read go; until [ \"$(stty size 2>/dev/null)\" = '30 120' ]; do sleep 0.1; done; echo resized"
    inside = node.inside()
    async with inside.up():
        asked = pod("talks", script, restart="Never", stdin=True, stdinOnce=True)
        await node.apply(asked, pod("shows", sized, restart="Never", stdin=True, tty=True))
        for name in ("talks", "shows"):
            await node.wait(name, "condition=Ready")
        socket = node.root / "plugbay.sock"
        async with attached(socket, "talks", stdin="true") as client, attached(socket, "talks") as other:
            seen = asyncio.create_task(other.until(STDERR))
            while not seen.done():  # the engine takes the other client up after we have answered it
                client.message(STDIN, b"1\n")
                await asyncio.wait([seen], timeout=0.5)
            assert seen.result().startswith(b"err 1\n")
            client.message(CLOSE, bytes([STDIN]))
            assert (await client.finish())[2] == {"metadata": {}, "status": "Success"}
        await node.ended("talks", "Succeeded")
        assert set((await node.log("talks")).splitlines()) == {"begun", "got 1", "err 1", "end"}
        async with attached(socket, "shows", stdin="true", tty="true") as client:
            client.message(RESIZE, b'{"Width": 120, "Height": 30}')
            client.message(STDIN, b"\n")
            assert b"resized\r\n" in (await client.finish())[0]


async def test_commands_have_input_and_terminals(node: Node) -> None:
    inside = node.inside()
    async with inside.up():
        await node.apply(pod("talks", "sleep 1000"))
        await node.wait("talks", "condition=Ready")
        text = "".join(f"line {number}\n" for number in range(50_000))
        assert await node("pod", "exec", "-i", "talks", "--", "cat", given=text) == (0, text, "")
        done = await node("pod", "exec", "-i", "talks", "--", "sh", "-c", "wc -c; echo blue >&2; exit 4", given="abc")
        assert done == (4, "3\n", "blue\ncommand terminated with exit code 4\n")
        assert (await node("pod", "exec", "-i", "talks", "--", "true", given="x" * 1_000)).code == 0
        done = await node("pod", "exec", "-i", "talks", "--", "nope")
        assert (done.code, "executable file not found" in done.err) == (126, True)
        with terminal() as tty:
            streams = {"stdin": tty.slave, "stdout": tty.slave, "stderr": tty.slave}
            argv = ("pod", "exec", "-it", "talks", "--", "sh", "-c", SHELL)
            async with asyncio.timeout(30), node.start(*argv, **streams) as process:
                await tty.shows("size 24 80")
                termios.tcsetwinsize(tty.master, (50, 132))
                process.send_signal(signal.SIGWINCH)
                await tty.shows("size 50 132")
                tty.type(b"\x03")
                await tty.shows("interrupted")
                assert await process.wait() == 3
        # One whose client is gone: what reads its input sees the end of it, what has a terminal is interrupted.
        async with node.start("pod", "exec", "-i", "talks", "--", "cat", stdin=asyncio.subprocess.PIPE) as reads:
            assert reads.stdin is not None
            reads.stdin.write(b"x\n")
            await node.line_with(reads, "x")
            reads.kill()
        with terminal() as tty:
            streams = {"stdin": tty.slave, "stdout": tty.slave, "stderr": tty.slave}
            async with node.start("pod", "exec", "-it", "talks", "--", "sh", "-c", SHELL, **streams) as shell:
                async with asyncio.timeout(30):
                    await tty.shows("size 24 80")
                shell.kill()
        await asyncio.to_thread(node.engine.until_alone, id_of(await node.pod("talks")))
