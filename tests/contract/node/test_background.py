"""``node up -d``, ``node status`` and ``node down``: a node without a terminal."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import stat

from tests.contract.conftest import Plugbay

DEADLINE_S = 30


async def pid_of(plugbay: Plugbay) -> int:
    done = await plugbay("node", "status")
    assert done.code == 0, done
    found = re.fullmatch(rf"a node \(pid (\d+)\) runs on {re.escape(str(plugbay.root))}\n", done.out)
    assert found, done
    return int(found[1])


async def test_a_node_in_the_background_answers_when_the_command_has_ended(plugbay: Plugbay) -> None:
    done = await plugbay("node", "up", "-d", "--name", "n1", "--runtime", "process")
    try:
        pid = await pid_of(plugbay)
        log = plugbay.root / "node.log"
        assert (done.code, done.out) == (
            0,
            f"node is up (pid {pid}); its log is {log}\nstop it with: plugbay node down --root {plugbay.root}\n",
        )
        assert "node n1 is ready at" in done.err, "what it says before it is ready"
        assert stat.S_IMODE(log.stat().st_mode) == 0o600
        assert "kubelet socket:" in log.read_text()
        assert os.getsid(pid) == pid, "the end of a terminal does not reach it"
        assert (await plugbay("node", "get", "-o", "name")).out == "node/n1\n"
        await plugbay("pod", "run", "web", "--", "sleep", "3600")
        await plugbay.until_running("web")
    finally:
        down = await plugbay("node", "down")
    assert (down.code, down.err) == (0, "")
    assert down.out.startswith("node stopped; its pods go on")
    assert (await plugbay("node", "status")).code == 1
    assert "stopped" in log.read_text()
    async with plugbay.node_up():
        await plugbay.until_running("web")


async def test_a_node_that_cannot_start_in_the_background_says_why(plugbay: Plugbay) -> None:
    async with plugbay.node_up() as node:
        done = await plugbay("node", "up", "-d")
        assert (done.code, done.out) == (1, "")
        assert done.err == f"plugbay: error: another plugbay node (pid {node.pid}) is running on {plugbay.root}\n"
        assert await pid_of(plugbay) == node.pid


async def test_a_node_in_the_background_logs_in_the_form_that_was_asked_for(plugbay: Plugbay) -> None:
    assert (
        await plugbay("node", "up", "--detach", "--runtime", "process", "--log-format", "json", "--log-level", "debug")
    ).code == 0
    await plugbay("pod", "run", "web", "--", "true")
    assert (await plugbay("node", "down")).code == 0
    lines = [line for line in (plugbay.root / "node.log").read_text().splitlines() if line.startswith("{")]
    assert lines
    assert all(json.loads(line)["message"] for line in lines)


async def test_where_no_node_runs_there_is_none_to_stop(plugbay: Plugbay) -> None:
    for _ in range(2):
        assert await plugbay("node", "status") == (1, f"no node runs on {plugbay.root}\n", "")
        assert await plugbay("node", "down") == (0, "", f"no node runs on {plugbay.root}\n")
        async with plugbay.node_up() as node:  # which leaves its lock's file behind
            node.kill()
            await node.wait()


async def test_a_node_in_the_foreground_is_stopped_too(plugbay: Plugbay) -> None:
    async with plugbay.node_up() as node:
        assert (await plugbay("node", "down")).code == 0
        assert await asyncio.wait_for(node.wait(), DEADLINE_S) == 0


async def test_a_node_that_does_not_stop_in_time_is_named(plugbay: Plugbay) -> None:
    async with plugbay.node_up() as node:
        node.send_signal(signal.SIGSTOP)
        try:
            done = await plugbay("node", "down", "--timeout", "200ms")
            assert (done.code, done.err) == (
                1,
                f"plugbay: error: the node (pid {node.pid}) was asked to stop and has not ended after 0.2 s\n",
            )
        finally:
            node.send_signal(signal.SIGCONT)
        assert await asyncio.wait_for(node.wait(), DEADLINE_S) == 0


async def test_a_process_whose_number_is_in_an_old_lock_is_left_alone(plugbay: Plugbay) -> None:
    (plugbay.root / "plugbay.lock").write_text(f"{os.getpid()}\n")
    assert (await plugbay("node", "down")).err == f"no node runs on {plugbay.root}\n"
