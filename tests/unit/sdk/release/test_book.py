"""Two processes that write one journal, and one that opens it twice."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from plugbay.model.assignments import Origin
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.sdk.release.book import Book
from plugbay.sdk.release.journal import Journal
from plugbay.sdk.release.kept import Trouble
from plugbay.sdk.release.uses import Phase

GOPHER = ResourceName("example.com/gopher")
A = DeviceId("a")


def opened(directory: Path) -> Book:
    book = Book(Journal(directory, GOPHER, "boot"), GOPHER, Trouble.RAISED)
    book.open()
    return book


async def test_call_that_another_process_answers_just_now_is_not_given_up(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as keeper, closing(opened(tmp_path)) as other:
        use = other.begin({A: A}, "life")
        [seen] = keeper.of_units([A])
        assert seen.phase is Phase.ALLOCATING
        assert other.answered(use.key)
        assert keeper.end(use.key, Origin.SYNTHESISED, seen=seen.phase) is None
        assert [use.phase for use in keeper.uses()] == [Phase.OPEN]


async def test_call_that_nobody_answers_is_given_up(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as keeper, closing(opened(tmp_path)) as other:
        use = other.begin({A: A}, "life")
        [seen] = keeper.of_units([A])
        assert keeper.end(use.key, Origin.SYNTHESISED, seen=seen.phase) is not None
        assert not other.answered(use.key)


def test_closed_book_opens_again(tmp_path: Path) -> None:
    """A plugin that has failed is started again."""
    with closing(opened(tmp_path)) as book:
        book.close()
        book.open()
        assert book.is_open
        assert book.is_ours
