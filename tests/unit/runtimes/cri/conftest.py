"""A scripted engine on a socket, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from plugbay.model.cri import CgroupDriver
from plugbay.model.resolution import DnsConfig
from plugbay.runtimes.cri.config import Conventions
from plugbay.wire.cri import CriClient
from tests.unit.runtimes.cri.scripted_engine import ScriptedEngine


@pytest.fixture
async def engine(sockets: Path) -> AsyncIterator[ScriptedEngine]:
    made = ScriptedEngine()
    async with made.serve(sockets / "cri"):
        yield made


@pytest.fixture
async def client(engine: ScriptedEngine, sockets: Path) -> AsyncIterator[CriClient]:
    made = CriClient(sockets / "cri")
    yield made
    await made.close()


@pytest.fixture
def conventions(sockets: Path) -> Conventions:
    places = (str(sockets / "logs"), str(sockets / "pods"), "plugbay-none")
    return Conventions("n", *places, CgroupDriver.CGROUPFS, 1000, DnsConfig(("10.0.0.53",)), "127.0.0.1\tmachine\n")
