"""What a reader sees that comes late."""

from __future__ import annotations

import pytest

from plugbay.objects.watch import Broadcast, Change

A, M, D = Change.ADDED, Change.MODIFIED, Change.DELETED


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        ([A, M, M], [(A, 2)]),
        ([M, M], [(M, 1)]),
        ([M, D], [(D, 1)]),
        ([D, A], [(D, 0), (A, 1)]),
        ([D, A, M], [(D, 0), (A, 2)]),
        ([D, A, D], [(D, 2)]),
        ([D, A, D, A], [(D, 2), (A, 3)]),
    ],
    ids=lambda value: " ".join(f"{each}" for each in value),
)
async def test_a_late_reader_sees_the_newest_and_every_end(sent: list[Change], seen: list[tuple[Change, int]]) -> None:
    broadcast = Broadcast[str, int]()
    subscription = broadcast.subscribe([])
    for number, change in enumerate(sent):
        broadcast.send(change, "key", number)
    assert await subscription.next() == seen
