"""``plugbay top``: its rows, and its screen under textual's own pilot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import pytest
from rich.text import Text
from textual.pilot import Pilot
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

Until: TypeAlias = Callable[[str], Awaitable[None]]
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


@pytest.mark.parametrize(
    ("order", "devices"),
    [
        (TopOrder(), ["g1", "g2", "g10", "x"]),
        (TopOrder(column=1, is_reversed=True), ["x", "g10", "g2", "g1"]),
        (TopOrder(column=3), ["g10", "g2", "g1", "x"]),
        (TopOrder(column=3, is_reversed=True), ["g1", "g2", "g10", "x"]),
        (TopOrder(column=5), ["g2", "g10", "g1", "x"]),
        (TopOrder(column=5, is_reversed=True), ["g10", "g2", "g1", "x"]),
        (TopOrder(column=7), ["g2", "g10", "g1", "x"]),
        (TopOrder(column=7, is_reversed=True), ["g10", "g2", "g1", "x"]),
    ],
)
def test_numbers_sort_as_such_and_what_is_unknown_comes_last_both_ways(order: TopOrder, devices: list[str]) -> None:
    view = node(
        DeviceView(id="g1", health=HEALTHY, numa_nodes=(11,)),
        DeviceView(id="g10", health=HEALTHY, numa_nodes=(1,), holders=(holder("web-10", 9),)),
        DeviceView(id="g2", health=HEALTHY, numa_nodes=(2,), holders=(holder("web-9", 3),)),
        DeviceView(id="x", health=HEALTHY),
    )
    assert [row[1] for row in top_rows(view, order, NOW)[0]] == devices


def test_rows_are_bounded_and_harmless() -> None:
    many = node(*(DeviceView(id=f"{number:05}", health=HEALTHY) for number in range(MOST_ROWS + 7)))
    rows, more = top_rows(many, TopOrder(), NOW)
    assert (len(rows), more) == (MOST_ROWS, 7)
    assert all(text.isprintable() for row in top_rows(NODE, TopOrder(), NOW)[0] for text in row)


def test_the_summary_says_what_is_missing() -> None:
    problem = ReadingProblem(Witness.POD_RESOURCES, "the kubelet hangs")
    view = ObservedNode(taken=NOW, root="/k", resources=NODE.resources, problems=(problem,))
    assert summary(view) == "example.com/gpu 2 held, 1 free   ! the kubelet hangs"


class Shown:
    """The screen at work under its pilot, and the views that come to it."""

    def __init__(self) -> None:
        self.coming: asyncio.Queue[ObservedNode] = asyncio.Queue()
        self.screen = TopScreen(self._views, lambda: NOW)

    async def _views(self) -> AsyncIterator[ObservedNode]:
        while True:
            yield await self.coming.get()

    @property
    def table(self) -> DataTable[Text]:
        return self.screen.query_one("#devices", DataTable)

    @property
    def devices(self) -> str:
        return "".join(str(self.table.get_row_at(number)[1]) for number in range(self.table.row_count))


@asynccontextmanager
async def shown(size: tuple[int, int] = (120, 30)) -> AsyncIterator[tuple[Shown, Pilot[None], Until]]:
    found = Shown()
    async with asyncio.timeout(60), found.screen.run_test(size=size) as pilot:

        async def until(wanted: str) -> None:
            while found.devices != wanted:
                await pilot.pause(0.01)

        found.coming.put_nowait(NODE)
        await until("abc")
        yield found, pilot, until


async def test_the_screen_follows_searches_and_sorts() -> None:
    async with shown() as (found, pilot, until):
        assert str(found.table.get_row_at(1)[5]) == r"[bold]x\x1b[2J"
        assert "2 held, 1 free" in str(found.screen.query_one("#summary", Static).render())
        await pilot.press("s", "r")
        await until("cba")
        await pilot.press("u")
        await until("b")
        await pilot.press("escape")
        await until("cba")
        await pilot.press("slash", "w", "e", "b")
        await until("a")
        await pilot.press("escape")
        found.coming.put_nowait(node(DeviceView(id="z", health=HEALTHY)))
        await until("z")
        await pilot.press("q")
    assert found.screen.return_code == 0


async def test_a_click_on_a_column_sorts_by_it_and_a_second_one_the_other_way_round() -> None:
    async with shown() as (found, pilot, until):
        [at] = [number for number, column in enumerate(found.table.ordered_columns) if "DEVICE" in str(column.label)]
        left = sum(column.get_render_width(found.table) for column in found.table.ordered_columns[:at])
        await pilot.click("#devices", offset=(left + 2, 0))
        await pilot.pause()
        assert found.screen.order == TopOrder(column=1)
        await pilot.click("#devices", offset=(left + 2, 0))
        await until("cba")
        await pilot.click("#devices", offset=(3, 2))  # a row takes the cursor, and nothing else changes
        await until("cba")
        assert found.table.cursor_row == 1


@pytest.mark.parametrize("size", [(40, 12), (24, 8), (10, 4)])
async def test_a_small_terminal_shows_what_fits_and_reaches_the_rest(size: tuple[int, int]) -> None:
    async with shown(size) as (found, pilot, until):
        await pilot.press("s", "r")
        await until("cba")
        await pilot.press("down", "down", "right", "right")
        assert found.table.cursor_row == 2
        assert found.table.max_scroll_x > 0  # the other columns are to the right
        await pilot.press("slash", "w", "e", "b", "enter")
        await until("a")
        assert found.screen.focused is found.table
        assert found.table.size.height >= 1


def test_without_a_terminal_there_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "--root", "/nowhere"]) == 2
    assert capsys.readouterr().err == (
        "plugbay: error: plugbay top needs a terminal; for a script there is: plugbay who --watch\n"
    )
