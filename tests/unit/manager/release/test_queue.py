"""The order of calls at the end of a use (spec 12.5, 12.6)."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.manager.config import DEFAULT_LIMITS, ReleaseLimits
from plugbay.manager.release.queue import Pending, ReleaseQueue
from plugbay.model.ids import DeviceId, PodUid, ResourceName
from plugbay.model.releases import Operation, OperationId, OperationKind
from plugbay.testing import ManualClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RESOURCES = ("example.com/gopher", "example.com/marmot")
NUMBERS = itertools.count()


def operation(resource: str, *devices: str, pod: str = "p") -> Operation:
    ids = tuple(map(DeviceId, devices))
    return Operation(
        OperationId(str(next(NUMBERS))), OperationKind.DEALLOCATE, ResourceName(resource), ids, PodUid(pod), NOW
    )


def queue(limits: ReleaseLimits = DEFAULT_LIMITS) -> ReleaseQueue:
    return ReleaseQueue(limits, clock=ManualClock())


def firsts(pending: Sequence[Pending], of: ReleaseQueue) -> list[bool]:
    return [of.is_first(each) for each in pending]


def test_operations_for_one_device_take_turns() -> None:
    q = queue()
    gopher, marmot = RESOURCES
    pending = [
        q.put(operation(gopher, "a", "b")),
        q.put(operation(gopher, "b")),
        q.put(operation(gopher, "c")),
        q.put(operation(marmot, "b")),
    ]
    assert firsts(pending, q) == [True, False, True, True]
    q.remove(pending[0])
    assert pending[1].woken.is_set()
    assert firsts(pending[1:], q) == [True, True, True]


SETS = st.lists(
    st.tuples(st.sampled_from(RESOURCES), st.sets(st.sampled_from("abcd"), min_size=1)), min_size=1, max_size=8
)


@given(SETS)
def test_all_are_made_in_the_order_of_each_device(wanted: list[tuple[str, set[str]]]) -> None:
    q = queue()
    waiting = deque(q.put(operation(resource, *sorted(devices))) for resource, devices in wanted)
    made: list[Pending] = []
    while waiting:
        ready = next(each for each in waiting if q.is_first(each))
        waiting.remove(ready)
        q.remove(ready)
        made.append(ready)
    for resource in RESOURCES:
        for device in "abcd":
            numbers = [
                int(each.operation.id)
                for each in made
                if each.operation.resource == resource and device in each.operation.devices
            ]
            assert numbers == sorted(numbers)
    assert not q.pending()
    assert q.of_pod(PodUid("p"), OperationKind.DEALLOCATE) == []


def test_a_change_of_plugin_wakes_its_own_operations_only() -> None:
    q = queue()
    gopher, marmot = (q.put(operation(resource, "a")) for resource in RESOURCES)
    q.wake(ResourceName(RESOURCES[0]))
    assert (gopher.woken.is_set(), marmot.woken.is_set()) == (True, False)


@pytest.mark.parametrize("wait_s", [0.0, 60.0])
async def test_what_has_happened_is_not_waited_for(wait_s: float) -> None:
    q = queue(ReleaseLimits(wait_s=wait_s))
    over = q.put(operation(RESOURCES[0], "a"))
    over.end()
    assert await q.wait([(over, over.over)]) == []


async def test_no_wait_is_asked_for() -> None:
    q = queue(ReleaseLimits(wait_s=0))
    late = q.put(operation(RESOURCES[0], "a"))
    assert await q.wait([(late, late.over)]) == [late]
