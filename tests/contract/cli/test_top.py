"""``plugbay top``: its rows, and its screen under textual's own pilot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from textual.widgets import DataTable, Static

from plugbay.cli.main import run
from plugbay.cli.see.top_rows import MOST_ROWS, TopOrder, summary, top_rows
from plugbay.cli.see.top_screen import TopScreen
from plugbay.observe.view import (
    DeviceHealth,
    DeviceHolder,
    DeviceView,
    HealthWord,
    ObservedNode,
    ReadingProblem,
    ResourceView,
    Witness,
)

NOW = datetime(2026, 11, 23, tzinfo=UTC)
HEALTHY = DeviceHealth(word=HealthWord.HEALTHY)
BURNT = DeviceHealth(word=HealthWord.UNHEALTHY, reason="Burnt")


def holder(pod: str, hours: int) -> DeviceHolder:
    return DeviceHolder(container="c", pod=pod, namespace="default", since=NOW - timedelta(hours=hours))


def node(*devices: DeviceView) -> ObservedNode:
    healthy = sum(device.health is HEALTHY for device in devices)
    resource = ResourceView(name="example.com/gpu", allocatable=healthy, devices=devices)
    return ObservedNode(taken=NOW, root="/k", resources=(resource,))


NODE = node(
    DeviceView(id="a", health=HEALTHY, holders=(holder("web", 5),)),
    DeviceView(id="b", health=BURNT, holders=(holder("[bold]x\x1b[2J", 30),)),
    DeviceView(id="c", health=HEALTHY),
)


@pytest.mark.parametrize(
    ("order", "devices"),
    [
        (TopOrder(), "abc"),
        (TopOrder(is_reversed=True), "abc"),
        (TopOrder(column=1, is_reversed=True), "cba"),
        (TopOrder(column=7), "abc"),
        (TopOrder(search="GPU web"), "a"),
        (TopOrder(search="nothing"), ""),
        (TopOrder(only_unhealthy=True), "b"),
    ],
)
def test_rows_are_searched_and_sorted(order: TopOrder, devices: str) -> None:
    rows, more = top_rows(NODE, order, NOW)
    assert ("".join(row[1] for row in rows), more) == (devices, 0)


def test_rows_are_bounded_and_harmless() -> None:
    many = node(*(DeviceView(id=f"{number:05}", health=HEALTHY) for number in range(MOST_ROWS + 7)))
    rows, more = top_rows(many, TopOrder(), NOW)
    assert (len(rows), more) == (MOST_ROWS, 7)
    assert all(text.isprintable() for row in top_rows(NODE, TopOrder(), NOW)[0] for text in row)


def test_the_summary_says_what_is_missing() -> None:
    problem = ReadingProblem(Witness.POD_RESOURCES, "the kubelet hangs")
    view = ObservedNode(taken=NOW, root="/k", resources=NODE.resources, problems=(problem,))
    assert summary(view) == "example.com/gpu 2 held, 1 free   ! the kubelet hangs"


async def test_the_screen_follows_searches_and_sorts() -> None:
    coming: asyncio.Queue[ObservedNode] = asyncio.Queue()

    async def views() -> AsyncIterator[ObservedNode]:
        while True:
            yield await coming.get()

    screen = TopScreen(views, lambda: NOW)
    async with asyncio.timeout(60), screen.run_test() as pilot:
        table = screen.query_one("#devices", DataTable)

        def devices() -> str:
            return "".join(str(table.get_row_at(number)[1]) for number in range(table.row_count))

        async def until(wanted: str) -> None:
            while devices() != wanted:
                await pilot.pause(0.01)

        coming.put_nowait(NODE)
        await until("abc")
        assert str(table.get_row_at(1)[5]) == r"[bold]x\x1b[2J"
        assert "2 held, 1 free" in str(screen.query_one("#summary", Static).render())
        await pilot.press("s", "r")
        await until("cba")
        await pilot.press("u")
        await until("b")
        await pilot.press("escape")
        await until("cba")
        await pilot.press("slash", "w", "e", "b")
        await until("a")
        await pilot.press("escape")
        coming.put_nowait(node(DeviceView(id="z", health=HEALTHY)))
        await until("z")
        await pilot.press("q")
    assert screen.return_code == 0


def test_without_a_terminal_there_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "--root", "/nowhere"]) == 2
    assert capsys.readouterr().err == (
        "plugbay: error: plugbay top needs a terminal; for a script there is: plugbay who --watch\n"
    )
