"""Which runtime a node has when it is not told: containers where an engine works, plain processes elsewhere."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.contract.conftest import Plugbay
from tests.contract.rigs.oci import why_not

pytestmark = pytest.mark.timeout(120)


@asynccontextmanager
async def greeting(plugbay: Plugbay, *options: str, path: str = "") -> AsyncIterator[tuple[str, str]]:
    """What a node says of its runtime on standard output and in its log, while it runs."""
    environ = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}
    log = plugbay.root / "log"
    with log.open("wb") as stderr:
        async with plugbay.start("node", "up", "--name", "n1", *options, env=environ, stderr=stderr) as node:
            said = await plugbay.line_with(node, "runtime:")
            await plugbay.line_with(node, "SIGTERM or Ctrl-C")
            yield said.removeprefix("runtime:").strip(), log.read_text()
            await plugbay.stop(node)


@pytest.fixture
def broken(tmp_path: Path) -> str:
    """A directory with engines that are there and do not work."""
    for name in ("crun", "runc"):
        (tmp_path / name).write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    return str(tmp_path)


@pytest.mark.skipif(bool(why_not()), reason=why_not())
async def test_containers_where_an_engine_works(plugbay: Plugbay) -> None:
    async with greeting(plugbay) as (runtime, _):
        assert runtime.startswith("oci; ")


async def test_processes_where_none_does_and_the_log_says_why(plugbay: Plugbay, broken: str) -> None:
    async with greeting(plugbay, path=broken) as (runtime, log):
        assert runtime.startswith("process; ")
        assert "containers are plain processes, without mounts or isolation of their own" in log
        assert "runc: broken" in log


async def test_no_processes_where_a_container_option_was_given(plugbay: Plugbay, broken: str) -> None:
    environ = {**os.environ, "PATH": f"{broken}:{os.environ['PATH']}"}
    async with plugbay.start("node", "up", "--oci-rootfs", "/", env=environ, stderr=-1) as node:
        assert node.stderr is not None
        assert b"no OCI engine runs containers here" in await node.stderr.read()
        assert await node.wait() == 1


@pytest.mark.skipif(bool(why_not()), reason=why_not())
async def test_a_node_keeps_the_runtime_of_its_pods(plugbay: Plugbay) -> None:
    async with greeting(plugbay, "--runtime", "process"):
        done = await plugbay("pod", "run", "stays", "--", "sleep", "600")
        assert done.code == 0, done
        await plugbay.until_running("stays")
    async with greeting(plugbay) as (runtime, _):
        assert runtime.startswith("process; ")
        await plugbay("pod", "delete", "--all", "--force")
