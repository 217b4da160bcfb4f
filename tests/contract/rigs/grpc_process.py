"""What a server of our gRPC costs when its peers mean harm, and how others fare meanwhile."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

from plugbay.wire.grpc.channel import Channel
from tests.contract.rigs import served_grpc

DEADLINE_S: Final = 30
PATIENCE_S: Final = 5.0
"""The time in which a peer that does no harm has its answer."""
MIB: Final = 2**20


class GrpcProcess:
    """A server in a process of its own; its methods are those of `served_grpc`."""

    def __init__(self, path: Path, pid: int) -> None:
        self.path = path
        self._proc = Path(f"/proc/{pid}")

    @asynccontextmanager
    async def abused(self, *, most_mib: float, most_cpu_s: float = 1.0) -> AsyncIterator[Channel]:
        """What is done in the block costs the server no more than that, and all of it is over soon afterwards.

        Others are answered all the time. The channel is one of these.
        """
        channel = Channel(self.path)
        await channel.connect(PATIENCE_S)
        try:
            before = await self.state(channel)
            self._proc.joinpath("clear_refs").write_text("5")  # lets VmHWM begin anew
            memory = self._memory("VmRSS")
            answering = asyncio.create_task(self._is_answered(channel))
            yield channel
            assert not answering.done() or answering.result() is None
            answering.cancel()
            await asyncio.wait([answering])
            grown = (self._memory("VmHWM") - memory) / MIB
            assert grown <= most_mib, f"the server has grown by {grown:.1f} MiB"
            used_s = (await self.state(channel))["cpu_s"] - before["cpu_s"]
            assert used_s <= most_cpu_s
            await self._until_as_before(channel, before)
        finally:
            await channel.close()

    async def takes_in(self, channel: Channel) -> None:
        """Return when it has read what other peers have sent before, as far as it reads from them at all."""
        for _ in range(10):
            await channel.unary("/rig.Rig/Echo", b"", timeout_s=PATIENCE_S)

    async def state(self, channel: Channel) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(await channel.unary("/rig.Rig/State", b"", timeout_s=DEADLINE_S))
        return state

    async def _is_answered(self, channel: Channel) -> None:
        while True:
            assert await channel.unary("/rig.Rig/Echo", b"gopher", timeout_s=PATIENCE_S) == b"gopher"
            await asyncio.sleep(0.02)

    async def _until_as_before(self, channel: Channel, before: dict[str, Any]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not _is_over(await self.state(channel), before):  # noqa: ASYNC110  # it runs elsewhere
                await asyncio.sleep(0.02)

    def _memory(self, what: str) -> int:
        """Bytes."""
        lines = (self._proc / "status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))


def _is_over(state: dict[str, Any], before: dict[str, Any]) -> bool:
    return all(state[what] <= before[what] for what in ("tasks", "descriptors"))


@contextmanager
def grpc_process(**changed: float) -> Iterator[GrpcProcess]:
    """A server that runs until the block ends, with constants of `wire.grpc.server` and ``server_link`` changed."""
    with tempfile.TemporaryDirectory(prefix="pb", dir="/tmp") as directory:
        path = Path(directory) / "s.sock"
        argv = [sys.executable, served_grpc.__file__, str(path), json.dumps(changed)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == b"serves\n"
                yield GrpcProcess(path, process.pid)
                assert process.poll() is None, "it has died"
            finally:
                process.kill()
