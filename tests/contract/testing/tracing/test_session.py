"""A trace in this process: what it says of plugins that do nothing, and what it leaves."""

from __future__ import annotations

import asyncio
import logging
import os

import pytest

from plugbay.errors import PluginProgramFailed
from plugbay.ops.clock import SystemClock
from plugbay.testing.conformance.subject.command import PluginCommand
from plugbay.testing.tracing import session
from plugbay.testing.tracing.session import TraceSettings, trace
from plugbay.traffic.records import TrafficRecord


async def test_plugin_that_never_registers_is_told_of_and_runs_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(session, "REGISTERS_S", 0.5)
    command = PluginCommand(("sh", "-c", "echo waiting for {root}; exec sleep 600"))
    records: list[TrafficRecord] = []
    with caplog.at_level(logging.WARNING):
        async with trace(TraceSettings(command, os.environ), records.append, clock=SystemClock()) as tracing:
            waiting = asyncio.ensure_future(tracing.until_ended())
            await asyncio.wait([waiting], timeout=2)
            assert not waiting.done()
            assert tracing.subject.is_running
            await tracing.subject.kill()
            with pytest.raises(PluginProgramFailed, match="was ended by SIGKILL before it registered"):
                await waiting
    [told] = [each.message for each in caplog.records if "has not registered" in each.message]
    assert told.startswith(
        "sh has not registered within 0.5 s, and runs on; the last that it printed:\n    waiting for /"
    )
    assert records == []
