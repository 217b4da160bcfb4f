"""What rules on kubelet restarts make of plugins that come back in a roundabout way."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.contract.testing.conformance.judged import failed, findings, judged, python

BREAKS_OFF: Final = """
import asyncio, itertools, sys
from collections.abc import AsyncIterator
from pathlib import Path
from plugbay.errors import RpcCode, RpcFailed
from plugbay.wire.generated import deviceplugin_v1beta1_pb2 as pb
from tests.contract.testing.zoo.animal import Animal

class BreaksOff(Animal):
    streams = itertools.count(1)

    async def lists(self, request: pb.Empty) -> AsyncIterator[bytes]:
        number = next(self.streams)
        if number > 1 and (ALWAYS or number % 2 == 0):
            raise RpcFailed(RpcCode.UNAVAILABLE, "the server is about to start again")
        async for message in super().lists(request):
            yield message

root = Path(sys.argv[1])
asyncio.run(BreaksOff(root / "device-plugins", root / "sick").run())
"""
"""Registers as the animals do, but every second stream breaks before its list."""
RESTARTS: Final = ("PB701", "PB702", "PB703", "PB712")


async def test_plugin_that_breaks_a_stream_off_and_registers_again_is_back(sockets: Path) -> None:
    command = python(BREAKS_OFF.replace("ALWAYS", "False"))
    report = await judged(command, *RESTARTS, places=sockets)
    assert failed(report) == [], [each.findings for each in report.verdicts]


async def test_plugin_that_breaks_every_stream_off_is_not_back(sockets: Path) -> None:
    report = await judged(python(BREAKS_OFF.replace("ALWAYS", "True")), "PB701", "PB712", places=sockets)
    assert failed(report) == ["PB701"]
    assert "and is not back: it sent no list" in findings(report, "PB701")[0]
