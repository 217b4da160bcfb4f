"""Two processes that write one journal, and one that opens it twice."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from plugbay.model.assignments import Origin
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.sdk.release.ledger.journal import Journal
from plugbay.sdk.release.ledger.ledger import Ledger, Trouble
from plugbay.sdk.release.uses import UsePhase

GOPHER = ResourceName("example.com/gopher")
A = DeviceId("a")


def opened(directory: Path) -> Ledger:
    ledger = Ledger(Journal(directory, GOPHER, "boot"), GOPHER, Trouble.RAISED)
    ledger.open()
    return ledger


async def test_call_that_another_process_answers_just_now_is_not_given_up(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as keeper, closing(opened(tmp_path)) as other:
        use = other.begin({A: A}, "life")
        [seen] = keeper.of_units([A])
        assert seen.phase is UsePhase.ALLOCATING
        assert other.answered(use.key)
        assert keeper.end(use.key, Origin.SYNTHESISED, seen=seen.phase) is None
        assert [use.phase for use in keeper.uses()] == [UsePhase.OPEN]


async def test_call_that_nobody_answers_is_given_up(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as keeper, closing(opened(tmp_path)) as other:
        use = other.begin({A: A}, "life")
        [seen] = keeper.of_units([A])
        assert keeper.end(use.key, Origin.SYNTHESISED, seen=seen.phase) is not None
        assert not other.answered(use.key)


def test_closed_book_opens_again(tmp_path: Path) -> None:
    """A plugin that has failed is started again."""
    with closing(opened(tmp_path)) as ledger:
        ledger.close()
        ledger.open()
        assert ledger.is_open
        assert ledger.is_ours
