"""How the times of a log are asked for: of a runtime that keeps them, and of one that does not."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from plugbay.node.api.streams.containers import ContainerRoutes
from plugbay.ops.changes import Changes
from plugbay.ops.routing import HttpError, Request
from plugbay.pods.status import PodPhase
from plugbay.runtimes.cri.logs import read_log
from plugbay.runtimes.port import ContainerId, LogTimes
from plugbay.testing.clock import ManualClock
from plugbay.testing.fake_node import FakeNode
from plugbay.testing.fake_runtime import FakeRuntime
from plugbay.testing.pod_values import is_in, pod

POD = {"namespace": "default", "name": "p"}


class TimedRuntime(FakeRuntime):
    """All its instances wrote the log at ``path``."""

    def __init__(self, path: Path) -> None:
        super().__init__(ManualClock(), Changes())
        self._path = path

    def timed_log(
        self, container: ContainerId, times: LogTimes, *, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        return read_log(self._path, tail=tail, times=times)


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ({"sinceSeconds": "5"}, b"two\nthree\n"),
        ({"sinceSeconds": "5", "tailLines": "1"}, b"three\n"),
        ({"sinceSeconds": "1", "timestamps": "true"}, b"2026-01-01T00:00:09.500000000Z three\n"),
        ({"sinceSeconds": "0"}, b""),
    ],
)
async def test_times_are_asked_for(tmp_path: Path, query: dict[str, str], shown: bytes) -> None:
    node, log = FakeNode(tmp_path), tmp_path / "log"
    seconds = ((b"01", b"one"), (b"07", b"two"), (b"09.5", b"three"))
    log.write_bytes(b"".join(b"2026-01-01T00:00:%sZ stdout F %s\n" % each for each in seconds))
    async with node.engine() as engine:
        await engine.create(pod())
        await node.until(is_in(PodPhase.RUNNING))
        node.clock.advance(10)
        routes = ContainerRoutes(node.pods, TimedRuntime(log), node.clock)
        answer = await routes.log(Request("GET", "/", query=query, params=POD))
        assert b"".join([chunk async for chunk in answer.chunks]) == shown


@pytest.mark.parametrize("query", [{"sinceSeconds": "5"}, {"timestamps": "true"}])
async def test_a_runtime_without_times_says_so(tmp_path: Path, query: dict[str, str]) -> None:
    node = FakeNode(tmp_path)
    async with node.engine() as engine:
        await engine.create(pod())
        await node.until(is_in(PodPhase.RUNNING))
        routes = ContainerRoutes(node.pods, node.runtime, node.clock)
        with pytest.raises(HttpError) as caught:
            await routes.log(Request("GET", "/", query=query, params=POD))
        assert caught.value.status == 400
