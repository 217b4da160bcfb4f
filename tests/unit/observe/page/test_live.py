"""The state of a node as its readers get it: whole, in portions, then what changes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from plugbay.observe.page.live import LiveNode
from plugbay.observe.page.rows import NODE
from plugbay.observe.view import CheckpointFile, ObservedNode, ReadingProblem, Witness
from tests.unit.observe.page.test_rows import GPU, NOW, WEB, device, node


async def event(stream: AsyncIterator[bytes]) -> tuple[str, Any]:
    lines = dict(line.split(": ", 1) for line in (await anext(stream)).decode().strip().splitlines())
    return lines["event"], json.loads(lines["data"])


async def whole(stream: AsyncIterator[bytes]) -> dict[str, Any]:
    """All rows up to the end of a whole state."""
    name, content = await event(stream)
    assert name == "state"
    rows = dict(content["put"])
    while (told := await event(stream))[0] != "live":
        assert told[0] == "more"
        rows |= dict(told[1]["put"])
    return rows


async def test_many_devices_come_in_portions() -> None:
    live = LiveNode()
    await live.show(node(*(device(str(number)) for number in range(1200))))
    async with aclosing(live.stream()) as stream:  # type: ignore[type-var]
        assert len(await whole(stream)) == 1200 + 2
    assert len(json.loads(await live.state())["put"]) == 1200 + 2


async def test_a_reader_gets_each_change_once() -> None:
    live = LiveNode()
    await live.show(node(device("a")))
    async with aclosing(live.stream()) as stream:  # type: ignore[type-var]
        await whole(stream)
        await live.show(node(device("a")))  # nothing has changed
        await live.show(node(device("a", holders=(WEB,))))
        await live.show(node(device("b")))
        name, first = await event(stream)
        assert (name, [key for key, _ in first["put"]]) == ("change", [f"r {GPU}", f"d {GPU} a"])
        assert [each["text"] for each in first["events"]] == ["a was given to default/web/main"]
        name, second = await event(stream)
        assert (name, second["gone"]) == ("change", [f"d {GPU} a"])


async def test_a_large_change_comes_in_portions_too() -> None:
    live = LiveNode()
    await live.show(node())
    async with aclosing(live.stream()) as stream:  # type: ignore[type-var]
        await whole(stream)
        await live.show(node(*(device(str(number)) for number in range(1000))))
        parts = (await anext(stream)).decode().split("\n\n")[:-1]
    names = [part.partition("\n")[0] for part in parts]
    assert names == ["event: more", "event: more", "event: change"]
    rows = [key for part in parts for key, _ in json.loads(part.partition("data: ")[2])["put"]]
    assert len(rows) == len(set(rows)) == 1000 + 1


async def test_a_reader_that_is_far_behind_gets_the_state_anew() -> None:
    live = LiveNode()
    await live.show(node(device("a")))
    async with aclosing(live.stream()) as stream:  # type: ignore[type-var]
        await whole(stream)
        for number in range(100):
            await live.show(node(device(str(number))))
        assert set(await whole(stream)) == {NODE, f"r {GPU}", f"d {GPU} 99"}


async def test_what_changes_while_a_state_is_sent_comes_after_it() -> None:
    live = LiveNode()
    await live.show(node(device("a")))
    async with aclosing(live.stream()) as stream:  # type: ignore[type-var]
        assert (await event(stream))[0] == "state"
        await live.show(node(device("b")))
        names = [(await event(stream))[0] for _ in range(3)]
    assert names == ["more", "live", "change"]


async def test_a_quiet_stream_shows_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plugbay.observe.page.live._SIGN_OF_LIFE_S", 0.01)
    live = LiveNode()
    async with aclosing(live.stream()) as stream:  # type: ignore[type-var]
        await whole(stream)
        assert await anext(stream) == b":\n\n"
        await live.show(node(device("a")))
        while (told := await anext(stream)) == b":\n\n":
            pass
        assert told.startswith(b"event: change\n")


async def test_a_kubelet_that_restarts_has_lost_no_device_on_the_page() -> None:
    live = LiveNode()
    await live.show(node(device("a")))
    await live.show(ObservedNode(taken=NOW, root="/k", problems=(ReadingProblem(Witness.POD_RESOURCES, "gone"),)))
    state = json.loads(await live.state())
    assert f"d {GPU} a" in dict(state["put"])
    row = dict(state["put"])[NODE]
    assert (row["problems"], row["partial"], row["asOf"]) == (["gone"], True, "2026-01-01T00:00:00Z")
    assert live.notes == ("Devices and pods are shown as they were when all sources could be read.", "gone")
    assert [event["text"] for event in state["events"]] == ["gone"]
    await live.show(node(device("a")))
    assert not live.notes


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ({Witness.POD_RESOURCES}, "The kubelet does not answer: devices and pods are shown as files have them."),
        ({Witness.CHECKPOINT}, "The checkpoint cannot be read: pods that hold devices may be missing."),
        (
            {Witness.POD_RESOURCES, Witness.CHECKPOINT},
            "Neither the kubelet nor its checkpoint can be read: devices and pods may be missing.",
        ),
    ],
    ids=["kubelet", "checkpoint", "both"],
)
async def test_what_is_missing_from_the_start_is_told(missing: set[Witness], told: str) -> None:
    live = LiveNode()
    lasting = ReadingProblem(Witness.CHECKPOINT, "old", is_lasting=True)
    await live.show(node(device("a"), problems=(*(ReadingProblem(each, "why") for each in missing), lasting)))
    assert live.notes[0] == told
    row = dict(json.loads(await live.state())["put"])[NODE]
    assert (row["lacking"], row["partial"], row["asOf"]) == (told, True, None)


async def test_the_state_tells_when_the_checkpoint_was_written_last() -> None:
    live = LiveNode()
    for minute in range(2):
        written = NOW + timedelta(minutes=minute)
        await live.show(replace(node(), checkpoint=CheckpointFile(path="/k/checkpoint", written=written)))
    state = dict(json.loads(await live.state())["put"])
    assert state[NODE]["checkpoint"]["written"] == "2026-01-01T00:01:00Z"
