from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from plugbay import HEALTHY, Device, Health, unhealthy, unknown
from plugbay.errors import DuplicateDevice
from plugbay.model.ids import DeviceId
from plugbay.sdk.discovery.listing import Listing

A, B = DeviceId("a"), DeviceId("b")
HOT, LOST, FAILED = unhealthy("Hot"), unknown("Lost"), unhealthy("AllocationFailed")


class Published:
    """What was published, as healths by ID."""

    def __init__(self) -> None:
        self.lists: list[dict[str, Health]] = []
        self.refuses = False
        self.came = asyncio.Event()

    def __call__(self, devices: Iterable[Device]) -> None:
        if self.refuses:
            raise OSError("too large")
        self.lists.append({device.id: device.health for device in devices})
        self.came.set()


class Opinion:
    def __init__(self, **healths: Health) -> None:
        self.healths = healths
        self.times_told = 0

    def health_of(self, device: DeviceId) -> Health:
        return self.healths.get(device, HEALTHY)

    def devices_changed(self) -> None:
        self.times_told += 1


def listing_of(*devices: Device) -> tuple[Listing, Published]:
    published = Published()
    listing = Listing(published)
    listing.found(devices, moment=listing.moment(), why="test")
    return listing, published


def test_devices_are_listed_in_the_order_of_their_ids() -> None:
    _, published = listing_of(Device("b"), Device("a"))
    assert [list(each) for each in published.lists] == [["a", "b"]]


@pytest.mark.parametrize(
    ("discovered", "judged", "listed"),
    [(HEALTHY, HOT, HOT), (HOT, HEALTHY, HOT), (LOST, HOT, HOT), (HOT, LOST, HOT), (LOST, HEALTHY, LOST)],
)
def test_gravest_word_counts(discovered: Health, judged: Health, listed: Health) -> None:
    published = Published()
    listing = Listing(published)
    listing.add_judge(Opinion())
    listing.add_judge(Opinion(a=judged))
    listing.found([Device("a", health=discovered)], moment=0, why="test")
    assert published.lists == [{"a": listed}]


def test_judges_hear_of_new_devices_after_they_are_listed() -> None:
    listing, published = listing_of()
    judge = Opinion()
    listing.add_judge(judge)
    published.refuses = True
    with pytest.raises(OSError, match="too large"):
        listing.found([Device("a")], moment=0, why="test")
    assert (judge.times_told, dict(listing.devices)) == (0, {})
    published.refuses = False
    listing.found([Device("a")], moment=0, why="test")
    assert judge.times_told == 1


def test_duplicates_leave_the_list_as_it_was() -> None:
    listing, published = listing_of(Device("a"))
    with pytest.raises(DuplicateDevice):
        listing.found([Device("b"), Device("b")], moment=0, why="test")
    assert list(listing.devices) == ["a"]
    assert len(published.lists) == 1


async def test_verdicts_close_together_make_one_list() -> None:
    listing, published = listing_of(Device("a"))
    published.came.clear()
    for _ in range(10):
        listing.judged((), moment=0, why="test")
    await asyncio.wait_for(published.came.wait(), 30)
    assert len(published.lists) == 2


def test_failed_device_is_unhealthy_until_found_healthy_later() -> None:
    listing, published = listing_of(Device("a"), Device("b"))
    before = listing.moment()
    listing.allocation_failed({A: FAILED, DeviceId("gone"): FAILED})
    assert published.lists[-1] == {"a": FAILED, "b": HEALTHY}
    devices = [Device("a"), Device("b")]
    listing.found(devices, moment=before, why="test")
    assert published.lists[-1]["a"] == FAILED, "that look began before the failure"
    listing.found([Device("a", health=LOST), Device("b")], moment=listing.moment(), why="test")
    assert published.lists[-1]["a"] == FAILED, "that look found it no better"
    listing.found(devices, moment=listing.moment(), why="test")
    assert published.lists[-1]["a"] == HEALTHY


async def test_healthy_verdict_ends_a_failure() -> None:
    listing, published = listing_of(Device("a"), Device("b"))
    listing.allocation_failed({A: FAILED, B: FAILED})
    published.came.clear()
    listing.judged([A], moment=listing.moment(), why="test")
    await asyncio.wait_for(published.came.wait(), 30)
    assert published.lists[-1] == {"a": HEALTHY, "b": FAILED}
