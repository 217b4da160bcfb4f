"""A trace in this process: what it says of plugins that do nothing, and what it leaves."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from typing import Final

import pytest

from plugbay.errors import PluginProgramFailed
from plugbay.ops.clock import SystemClock
from plugbay.testing.conformance.subject.command import PluginCommand
from plugbay.testing.tracing import session
from plugbay.testing.tracing.session import TraceSettings, trace
from plugbay.traffic.records import TrafficRecord

DEADLINE_S: Final = 60


class Warnings(logging.Handler):
    """Attributes: ``came``: set by the first warning; ``texts``: all of them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        self.came = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
        self.came.set()


@pytest.fixture
async def warnings() -> AsyncIterator[Warnings]:
    handler = Warnings()
    session.logger.addHandler(handler)
    yield handler
    session.logger.removeHandler(handler)


async def test_plugin_that_never_registers_is_told_of_and_runs_on(
    monkeypatch: pytest.MonkeyPatch, warnings: Warnings
) -> None:
    monkeypatch.setattr(session, "REGISTERS_S", 0.1)
    command = PluginCommand(("sh", "-c", "echo waiting for {root}; exec sleep 600"))
    records: list[TrafficRecord] = []
    printed = asyncio.Event()
    settings = TraceSettings(command, os.environ, echo=lambda _: printed.set())
    async with asyncio.timeout(DEADLINE_S), trace(settings, records.append, clock=SystemClock()) as tracing:
        await printed.wait()
        waiting = asyncio.ensure_future(tracing.until_ended())
        await warnings.came.wait()
        assert not waiting.done()
        assert tracing.subject.is_running
        await tracing.subject.kill()
        with pytest.raises(PluginProgramFailed, match="was ended by SIGKILL before it registered"):
            await waiting
    [told] = warnings.texts
    assert told.startswith(
        "sh has not registered within 0.1 s, and runs on; the last that it printed:\n    waiting for /"
    )
    assert records == []
