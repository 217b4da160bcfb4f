"""The doctor behind the page: one examination at a time, and a bound on what hangs."""

from __future__ import annotations

import argparse
import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from plugbay.cli.see.options import chosen_places
from plugbay.observe.doctor.evidence import reading
from plugbay.observe.doctor.evidence.host import Host
from plugbay.observe.page import examining
from plugbay.observe.page.examining import NodeExamination
from plugbay.observe.places import places_of
from plugbay.ops.clock import SystemClock
from plugbay.ops.routing import HttpError
from plugbay.printers import v1


class Hanging:
    """A file system that answers when it is let go."""

    def __init__(self) -> None:
        self.asked = 0
        self._let_go = threading.Event()

    def __call__(self, *_: object) -> tuple[()]:
        self.asked += 1
        self._let_go.wait()
        return ()

    def let_go(self) -> None:
        self._let_go.set()


def _until_no_more_hang_than(count: int) -> None:
    """Wait for the readings that are slow only, as on a busy machine."""
    while reading.hanging_readings() > count:
        time.sleep(0.005)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    """The directories of pods hang; an examination goes on without them soon."""
    found = Hanging()
    monkeypatch.setattr(reading, "read_pods", found)
    monkeypatch.setattr(Host, "read_s", 0.05)
    yield found
    found.let_go()
    _until_no_more_hang_than(0)


@pytest.fixture
def examination(tmp_path: Path) -> NodeExamination:
    places = places_of(tmp_path / "var/lib/kubelet", host=tmp_path, is_own=False)
    places.kubelet.device_plugins.mkdir(parents=True)
    return NodeExamination(places, SystemClock())


async def test_all_that_ask_at_a_time_get_one_examination(hanging: Hanging, examination: NodeExamination) -> None:
    async with asyncio.timeout(20):
        first, second = await asyncio.gather(examination.diagnosis(), examination.diagnosis())
    assert first is second
    assert hanging.asked == 1
    assert "the directories of pods" in [
        v1.text(gap, "what") for gap in v1.objects(first, "gaps") if "hangs" in v1.text(gap, "why")
    ]


async def test_an_asker_that_leaves_does_not_begin_a_second_examination(
    hanging: Hanging, examination: NodeExamination
) -> None:
    async with asyncio.timeout(20):
        leaving = asyncio.create_task(examination.diagnosis())
        await asyncio.sleep(0)
        leaving.cancel()
        await examination.diagnosis()
    assert hanging.asked == 1


async def test_readings_that_hang_do_not_pile_up(
    hanging: Hanging, examination: NodeExamination, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examining, "MOST_HANGING", 2)
    async with asyncio.timeout(30):
        for asked in range(1, 4):
            await examination.diagnosis()
            await asyncio.to_thread(_until_no_more_hang_than, asked)
        with pytest.raises(HttpError, match="still hang"):
            await examination.diagnosis()
        assert hanging.asked == 3
        hanging.let_go()
        await asyncio.to_thread(_until_no_more_hang_than, 0)
        await examination.diagnosis()


async def test_one_that_takes_too_long_is_said_and_ends_with_the_page(
    hanging: Hanging, examination: NodeExamination, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examining, "PATIENCE_S", 0.01)
    monkeypatch.setattr(Host, "read_s", 60)
    with pytest.raises(HttpError, match="has not ended within"):
        await examination.diagnosis()
    await examination.close()


async def test_a_host_that_was_named_from_here_is_examined_and_not_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "node/k/device-plugins").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    args = argparse.Namespace(host="node", root="node/k", node=False, status=[])
    async with asyncio.timeout(20):
        diagnosis = await NodeExamination(chosen_places(args), SystemClock()).diagnosis()
    assert v1.text(diagnosis, "root") == "/k"
