"""Logs that an engine writes are rotated as by a kubelet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from plugbay.errors import RpcCode, RpcFailed
from plugbay.ops.changes import Changes
from plugbay.ops.tasks import background
from plugbay.runtimes.cri.log_rotation import LOOK_S, LogRotation
from plugbay.runtimes.logs.files import LogLimits
from plugbay.runtimes.logs.lines import read_log
from plugbay.runtimes.port import ContainerId
from plugbay.testing.fake_node import NappingClock
from plugbay.wire.cri import CriClient
from plugbay.wire.generated import cri_v1_pb2 as v1
from tests.unit.runtimes.cri.scripted_engine import ScriptedEngine

ID = ContainerId("c0")
DEADLINE_S = 30


class Rotated:
    """A container that runs, and its log."""

    def __init__(self, moved: Changes, clock: NappingClock, rotation: LogRotation, log: Path) -> None:
        self.log = log
        self.moved = moved
        self.clock = clock
        self.rotation = rotation

    async def look(self) -> None:
        """Have the rotation look, and return when it has."""
        await self._asleep()
        self.clock.advance(LOOK_S)
        await self._asleep()

    async def _asleep(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            async for _ in self.moved:
                if self.clock.sleepers:
                    return

    def files(self) -> list[str]:
        return sorted(each.name for each in self.log.parent.iterdir())


@asynccontextmanager
async def rotated(engine: ScriptedEngine, client: CriClient, directory: Path) -> AsyncIterator[Rotated]:
    log = directory / "pod" / "0.log"
    log.parent.mkdir()
    log.write_bytes(b"t stdout F 0\n")
    engine.containers[ID] = v1.ContainerStatus(id=ID, state=v1.CONTAINER_RUNNING, log_path=str(log))
    moved = Changes()
    clock = NappingClock(moved)
    rotation = LogRotation(client, clock, LogLimits(max_bytes=20, max_files=3))
    async with background(rotation.run(), name="rotation"):
        rotation.begin(ID, log)
        yield Rotated(moved, clock, rotation, log)


async def test_a_full_log_is_moved_away_and_the_oldest_are_dropped(
    engine: ScriptedEngine, client: CriClient, sockets: Path
) -> None:
    async with rotated(engine, client, sockets) as it:
        await it.look()
        assert it.files() == ["0.log"]
        for number in range(1, 5):
            with it.log.open("ab") as log:
                log.write(b"t stdout F %d\n" % number * 2)
            await it.look()
        assert it.files() == ["0.log", "0.log.20260101-000040", "0.log.20260101-000050"]
        assert b"".join([text async for text in read_log(it.log, tail=None)]) == b"3\n3\n4\n4\n"
        assert b"".join([text async for text in read_log(it.log, tail=3)]) == b"3\n4\n4\n"
        it.log.unlink()
        assert b"".join([text async for text in read_log(it.log, tail=1)]) == b"4\n", "the engine begins another soon"


async def test_an_engine_that_does_not_begin_another_log_keeps_the_one_it_has(
    engine: ScriptedEngine, client: CriClient, sockets: Path
) -> None:
    async with rotated(engine, client, sockets) as it:
        it.log.write_bytes(b"t stdout F full up\n" * 2)
        engine.failures["ReopenContainerLog"] = [RpcFailed(RpcCode.UNKNOWN, "no"), None]
        await it.look()
        assert it.files() == ["0.log"]
        await it.look()
        assert it.files() == ["0.log", "0.log.20260101-000020"]


async def test_a_log_that_a_killed_node_moved_away_is_begun_again(
    engine: ScriptedEngine, client: CriClient, sockets: Path
) -> None:
    async with rotated(engine, client, sockets) as it:
        it.log.rename(it.log.with_name("0.log.20251231-000000"))
        await it.look()
        assert it.files() == ["0.log", "0.log.20251231-000000"]


async def test_the_log_of_a_container_that_was_removed_by_hand_is_left_alone(
    engine: ScriptedEngine, client: CriClient, sockets: Path
) -> None:
    async with rotated(engine, client, sockets) as it:
        it.log.unlink()
        engine.failures["ReopenContainerLog"] = [RpcFailed(RpcCode.NOT_FOUND, "no such container")]
        (other_log := it.log.with_name("1.log")).touch()
        it.rotation.begin(other := ContainerId("c1"), other_log)
        await it.look()
        it.rotation.end(other)
        it.clock.advance(LOOK_S)
        for _ in range(100):
            await asyncio.sleep(0)
        assert it.clock.sleepers == 0


async def test_nothing_is_looked_at_when_nothing_runs(engine: ScriptedEngine, client: CriClient, sockets: Path) -> None:
    async with rotated(engine, client, sockets) as it:
        await it.look()
        it.rotation.end(ID)
        it.clock.advance(LOOK_S)
        for _ in range(100):
            await asyncio.sleep(0)
        assert it.clock.sleepers == 0
