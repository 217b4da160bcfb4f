"""How a part of a log is asked for, and what does not go together."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from plugbay.node.api.streams.logs import LogRoutes
from plugbay.ops.changes import Changes
from plugbay.ops.routing import HttpError, Request, StreamResponse
from plugbay.pods.status import PodPhase
from plugbay.runtimes.logs.lines import read_log
from plugbay.runtimes.port import ALL_LINES, ContainerId, LogLines
from plugbay.testing.clock import ManualClock
from plugbay.testing.fake_node import FakeNode
from plugbay.testing.fake_runtime import FakeRuntime
from plugbay.testing.pod_values import is_in, pod

POD = {"namespace": "default", "name": "p"}


class LoggingRuntime(FakeRuntime):
    """All its instances wrote the log at ``path``."""

    def __init__(self, path: Path) -> None:
        super().__init__(ManualClock(), Changes())
        self._path = path

    def log(
        self, container: ContainerId, *, follow: bool = False, tail: int | None = None, lines: LogLines = ALL_LINES
    ) -> AsyncGenerator[bytes, None]:
        return read_log(self._path, tail=tail, lines=lines)


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ({"sinceSeconds": "5"}, b"two\nthree\n"),
        ({"sinceSeconds": "5", "tailLines": "1"}, b"three\n"),
        ({"sinceSeconds": "1", "timestamps": "true"}, b"2026-01-01T00:00:09.500000000Z three\n"),
        ({"sinceTime": "2026-01-01T00:00:07Z"}, b"two\nthree\n"),
        ({"sinceTime": "2026-01-01T02:00:07.000000001+02:00", "tailLines": "2"}, b"two\nthree\n"),
        ({"limitBytes": "6"}, b"one\ntw"),
        ({"limitBytes": "6", "timestamps": "true"}, b"2026-0"),
        ({"limitBytes": "600"}, b"one\ntwo\nthree\n"),
        ({"stream": "All"}, b"one\ntwo\nthree\n"),
        ({"stream": "Stdout"}, b"one\nthree\n"),
        ({"stream": "Stderr", "limitBytes": "2"}, b"tw"),
    ],
)
async def test_a_part_of_the_log_is_asked_for(tmp_path: Path, query: dict[str, str], shown: bytes) -> None:
    node, log = FakeNode(tmp_path), tmp_path / "log"
    lines = ((b"01", b"stdout F one"), (b"07", b"stderr F two"), (b"09.5", b"stdout F three"))
    log.write_bytes(b"".join(b"2026-01-01T00:00:%sZ %s\n" % each for each in lines))
    async with node.engine() as engine:
        await engine.create(pod())
        await node.until(is_in(PodPhase.RUNNING))
        node.clock.advance(10)
        routes = LogRoutes(node.pods, LoggingRuntime(log), node.clock)
        answer = await routes.log(Request("GET", "/", query=query, params=POD))
        assert isinstance(answer, StreamResponse)
        assert b"".join([chunk async for chunk in answer.chunks]) == shown


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"sinceSeconds": "0"}, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        ({"limitBytes": "0"}, "limitBytes: Invalid value: 0: must be greater than 0"),
        (
            {"sinceSeconds": "1", "sinceTime": "2026-01-01T00:00:07Z"},
            "sinceSeconds: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
        (
            {"stream": "Stdout", "tailLines": "1"},
            "tailLines: Forbidden: `tailLines` and specific `stream` are mutually exclusive for now",
        ),
    ],
)
async def test_options_that_do_not_go_together(tmp_path: Path, query: dict[str, str], problem: str) -> None:
    node = FakeNode(tmp_path)
    async with node.engine() as engine:
        await engine.create(pod())
        await node.until(is_in(PodPhase.RUNNING))
        routes = LogRoutes(node.pods, node.runtime, node.clock)
        with pytest.raises(HttpError) as caught:
            await routes.log(Request("GET", "/", query=query, params=POD))
        assert (caught.value.status, caught.value.message) == (422, f'PodLogOptions "p" is invalid: {problem}')
