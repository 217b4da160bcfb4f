"""``pod exec -i -t`` on a node, and what becomes of commands and hooks when the node is killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import termios
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from plugbay.kernel.processes import read_stat, wait_end
from tests.contract.rigs.terminals import terminal

if TYPE_CHECKING:
    from tests.contract.conftest import Plugbay

DEADLINE_S = 30


async def test_a_command_beside_a_container_gets_our_input(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        await plugbay("pod", "run", "web", "--env", "COLOR=blue", "--", "sleep", "3600")
        await plugbay.until_running("web")
        script = "wc -c; echo $COLOR >&2; exit 4"
        done = await plugbay("pod", "exec", "web", "-i", "--", "sh", "-c", script, given="x" * 1_000_000)
        assert done == (4, "1000000\n", "blue\ncommand terminated with exit code 4\n")
        assert await plugbay("pod", "exec", "web", "-i", "--", "true", given="x" * 1_000_000) == (0, "", "")
        done = await plugbay("pod", "exec", "web", "-i", "-c", "nope", "--", "cat")
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith("plugbay: error: container nope is not valid for pod web")


SHELL = """
trap 'echo interrupted; exit 3' INT
trap 'echo size $(stty size)' WINCH
echo size $(stty size)
while true; do sleep 0.1; done
"""


async def test_a_command_beside_a_container_has_a_terminal_like_ours(plugbay: Plugbay) -> None:
    async with plugbay.node_up():
        await plugbay("pod", "run", "web", "--", "sleep", "3600")
        await plugbay.until_running("web")
        with terminal() as tty:
            before = tty.mode()
            argv = ("pod", "exec", "-it", "web", "--", "sh", "-c", SHELL)
            streams = {"stdin": tty.slave, "stdout": tty.slave, "stderr": tty.slave}
            async with asyncio.timeout(DEADLINE_S), plugbay.start(*argv, **streams) as process:
                await tty.shows("size 24 80")
                termios.tcsetwinsize(tty.master, (50, 132))
                process.send_signal(signal.SIGWINCH)
                await tty.shows("size 50 132")
                tty.type(b"\x03")
                await tty.shows("interrupted")
                assert await process.wait() == 3
            assert tty.mode() == before


async def told_pid(fifo: Path) -> int:
    """What a shell writes there as ``$$``."""
    async with asyncio.timeout(DEADLINE_S):
        return int(await asyncio.to_thread(fifo.read_text))


async def until_ended(pid: int) -> None:
    stat = read_stat(pid, proc_root=Path("/proc"))
    if stat is not None:
        async with asyncio.timeout(DEADLINE_S):
            await wait_end(stat.identity, proc_root=Path("/proc"))


async def kill(node: asyncio.subprocess.Process) -> None:
    node.kill()
    await node.wait()


@pytest.mark.parametrize("options", [(), ("-i",)], ids=["output", "input"])
async def test_a_killed_node_takes_the_command_along(plugbay: Plugbay, options: tuple[str, ...]) -> None:
    pipes = {"stdin": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
    async with plugbay.node_up() as node:
        await plugbay("pod", "run", "web", "--", "sleep", "3600")
        await plugbay.until_running("web")
        command = ("pod", "exec", "web", *options, "--", "sh", "-c", "echo $$; sleep 600; true")
        async with plugbay.start(*command, **pipes) as process:
            pid = int(await plugbay.line_with(process, "\n"))
            await kill(node)
            async with asyncio.timeout(DEADLINE_S):
                out, err = await process.communicate()
            assert (process.returncode, out) == (1, b"")
            assert err.startswith(f"plugbay: error: no plugbay node answers at {plugbay.root}/plugbay.sock (".encode())
            assert err.count(b"\n") == 1
        await until_ended(pid)
    async with plugbay.node_up():
        pass  # and takes the pod away


def hooked(hook: str, fifo: Path) -> str:
    command = ["sh", "-c", f"echo $$ > {fifo}; sleep 600; true"]
    container = {"name": "c", "command": ["sleep", "3600"], "lifecycle": {hook: {"exec": {"command": command}}}}
    return json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [container]}}
    )


@pytest.mark.parametrize("hook", ["postStart", "preStop"])
async def test_a_killed_node_takes_a_hook_along(plugbay: Plugbay, tmp_path: Path, hook: str) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    async with plugbay.node_up() as node:
        await plugbay("pod", "apply", "-f", "-", given=hooked(hook, fifo))
        if hook == "preStop":
            await plugbay.until_running("web")
            await plugbay("pod", "delete", "web", "--wait=false")
        pid = await told_pid(fifo)
        await kill(node)
        await until_ended(pid)
    async with plugbay.node_up():
        pass  # and takes the pod away
