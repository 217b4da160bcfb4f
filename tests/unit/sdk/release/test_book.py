"""Two processes that write one journal, and threads that come late."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from typing import Self

from plugbay.model.assignments import Origin
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.sdk.release.book import Book, Trouble
from plugbay.sdk.release.journal import Journal
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


class Slow(Journal):
    """It takes until it may be opened."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, GOPHER, "boot")
        self.is_entered, self.may_open = threading.Event(), threading.Event()

    def __enter__(self) -> Self:
        self.is_entered.set()
        assert self.may_open.wait(30)
        return super().__enter__()


def test_journal_of_a_book_that_was_closed_while_it_opened_is_free(tmp_path: Path) -> None:
    """A plugin that is told to end cannot stop the thread that waits for the disk."""
    journal = Slow(tmp_path)
    book = Book(journal, GOPHER, Trouble.RAISED)
    opening = threading.Thread(target=book.open)
    opening.start()
    assert journal.is_entered.wait(30)
    book.close()
    journal.may_open.set()
    opening.join()
    assert not book.is_open
    with closing(opened(tmp_path)) as following:
        assert following.is_ours
