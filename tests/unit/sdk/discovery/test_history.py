"""What is kept of lists of devices and of looks for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.model.devices import Device
from plugbay.model.health import HEALTHY, unhealthy
from plugbay.sdk.discovery.history import DeviceHistory, Looks

HEALTHS = st.sampled_from([HEALTHY, unhealthy("Hot", "90 °C"), unhealthy("Hot", "91 °C"), unhealthy("Gone")])
LISTS = st.lists(st.dictionaries(st.sampled_from("abcd"), HEALTHS), max_size=8)


@given(LISTS)
def test_changes_add_up_to_the_devices_there_are(lists: list[dict[str, object]]) -> None:
    async def offer_all() -> None:
        history, transitions, before = DeviceHistory(), 0, dict[str, object]()
        for health_of in lists:
            history.offered([Device(name, health=health) for name, health in health_of.items()])  # type: ignore[arg-type]
            kinds = {name: str(health).partition(":")[0] for name, health in health_of.items()}
            transitions += sum(kinds[name] != before[name] for name in kinds.keys() & before.keys())
            before = dict(kinds)
            assert history.since.keys() == history.devices.keys() == health_of.keys()
        assert history.changes["added"] - history.changes["removed"] == len(history.devices)
        assert history.changes["changed"] == 0
        assert history.transitions.total() == transitions

    asyncio.run(offer_all())


async def test_health_keeps_its_moment_while_only_the_message_changes() -> None:
    history = DeviceHistory()
    history.offered([Device("a", health=unhealthy("Hot", "90 °C"))])
    [since] = history.since.values()
    await asyncio.sleep(0)
    history.offered([Device("a", health=unhealthy("Hot", "91 °C"))])
    assert [*history.since.values()] == [since]
    history.offered([Device("a", env={"X": "1"})])
    assert [*history.since.values()] > [since]
    assert (history.changes["changed"], dict(history.transitions)) == (1, {("Healthy", ""): 1})


@asynccontextmanager
async def look(problem: str = "") -> AsyncIterator[int]:
    if problem:
        raise RuntimeError(problem)
    yield 7


async def test_looks_count_what_failed_and_forget_a_problem_that_is_over() -> None:
    looks = Looks()
    assert looks.ended is None
    with pytest.raises(RuntimeError):
        async with looks.timed(look("boom")):
            pytest.fail("it gave something")
    looks.failed("boom")
    assert (looks.taken.count, looks.failures, looks.problem) == (1, 1, "boom")
    async with looks.timed(look()) as found:
        assert found == 7
    assert (looks.taken.count, looks.failures, looks.problem) == (2, 1, "")
