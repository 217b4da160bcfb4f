"""What a journal says after its disk was full, and to whom it belongs."""

from __future__ import annotations

import asyncio
import os
import resource
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest

from plugbay.errors import PathUnusable
from plugbay.model.assignments import Origin
from plugbay.model.ids import DeviceId, ResourceName, parse_resource_name
from plugbay.sdk.release.book import Book
from plugbay.sdk.release.journal import Journal
from plugbay.sdk.release.kept import Trouble
from plugbay.sdk.release.records import Content, Record
from plugbay.sdk.release.uses import Phase

GOPHER = ResourceName("example.com/gopher")
DEADLINE_S = 20.0


def book(directory: Path, trouble: Trouble = Trouble.RAISED) -> Book:
    return Book(Journal(directory, GOPHER, "boot"), GOPHER, trouble)


@contextmanager
def limited(kind: int, soft: int) -> Iterator[None]:
    before, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (before, hard))


def full_after(size: int) -> AbstractContextManager[None]:
    """No file of this process can grow beyond ``size`` bytes, as if the disk were full."""
    return limited(resource.RLIMIT_FSIZE, size)


def no_new_files() -> AbstractContextManager[None]:
    """This process can open no file, as if it had too many."""
    return limited(resource.RLIMIT_NOFILE, 0)


def open_files() -> Iterator[str]:
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # it was the listing's own, or some thread's
            yield os.readlink(f"/proc/self/fd/{number}")


def units(*names: str) -> dict[DeviceId, DeviceId]:
    return {DeviceId(name): DeviceId(name) for name in names}


async def test_a_line_that_a_full_disk_has_torn_spoils_no_other(tmp_path: Path) -> None:
    ours = book(tmp_path)
    ours.open()
    ours.begin(units("a"), "life")
    with full_after(ours.path.stat().st_size + 20), pytest.raises(PathUnusable):
        ours.begin(units("b"), "life")
    ours.begin(units("c"), "life")
    ours.close()
    after = book(tmp_path)
    after.open()
    assert {unit for use in after.uses() for unit in use.units} == {"a", "c"}
    after.close()


async def test_a_line_torn_by_another_process_spoils_none_of_ours(tmp_path: Path) -> None:
    ours = book(tmp_path)
    ours.open()
    ours.begin(units("a"), "life")
    with ours.path.open("ab") as journal:
        journal.write(b'0badcafe {"use":')
    ours.begin(units("b"), "life")
    assert {unit for use in ours.uses() for unit in use.units} == {"a", "b"}
    ours.close()
    after = book(tmp_path)
    after.open()
    assert {unit for use in after.uses() for unit in use.units} == {"a", "b"}
    after.close()


async def test_what_another_process_releases_is_not_given(tmp_path: Path) -> None:
    """Three processes overlap: the first ends, and the third takes over before the second one has answered."""
    second, third = book(tmp_path), book(tmp_path)
    first = book(tmp_path)
    first.open()
    second.open()
    use = second.begin(units("a"), "life")
    first.close()
    third.open()
    [found] = third.uses()
    assert (third.is_ours, found.phase) == (True, Phase.RELEASING)
    assert not second.answered(use.key)
    third.close_use(use.key)
    assert not second.answered(use.key)
    second.close()
    third.close()


async def test_answered_use_is_open_and_over_only_once(tmp_path: Path) -> None:
    ours = book(tmp_path)
    ours.open()
    use = ours.begin(units("a"), "life")
    assert ours.answered(use.key)
    over = ours.end(use.key, Origin.SYNTHESISED)
    assert over is not None
    assert over.phase is Phase.RELEASING
    ours.close()


async def test_who_is_lazy_goes_on_beside_a_journal_that_cannot_be_opened(tmp_path: Path) -> None:
    keeper = book(tmp_path)
    keeper.open()
    keeper.close()
    keeper.path.with_suffix(".writing").unlink()
    keeper.path.with_suffix(".writing").mkdir()
    lazy = book(tmp_path, Trouble.LOGGED)
    with pytest.raises(PathUnusable):
        lazy.open()
    assert lazy.of_units(units("a")) == []


async def test_reboot_with_a_full_disk_makes_nobody_take_later_uses_for_earlier_ones(tmp_path: Path) -> None:
    ours = book(tmp_path)
    ours.open()
    ours.close()
    lazy = Book(Journal(tmp_path, GOPHER, "boot 2"), GOPHER, Trouble.LOGGED)
    with full_after(0), pytest.raises(PathUnusable):
        lazy.open()
    use = lazy.begin(units("a"), "life")
    assert lazy.answered(use.key)
    lazy.close()
    after = Book(Journal(tmp_path, GOPHER, "boot 2"), GOPHER, Trouble.LOGGED)
    after.open()
    assert [(use.key, use.phase) for use in after.uses()] == [(use.key, Phase.OPEN)]
    after.close()


async def test_journal_that_is_opened_until_it_can_be_leaves_no_files_open(tmp_path: Path) -> None:
    ours = book(tmp_path)
    ours.path.mkdir()
    for _ in range(3):
        with pytest.raises(PathUnusable):
            ours.open()
    ours.close()
    assert not [path for path in open_files() if path.startswith(str(tmp_path))]


async def test_who_cannot_rewrite_what_he_takes_over_knows_what_it_says(tmp_path: Path) -> None:
    keeper, ours = book(tmp_path), book(tmp_path)
    keeper.open()
    ours.open()
    ours.begin(units("b"), "life")
    use = keeper.begin(units("a"), "life")
    assert keeper.answered(use.key)
    keeper.close()
    with full_after(64), pytest.raises(PathUnusable):  # the lock's file is shorter
        ours.take_over(())
    assert ours.is_ours
    assert [each.key for each in ours.of_units(units("a"))] == [use.key]
    ours.close()


async def test_rewrite_that_outlives_its_task_ends_before_the_next_keeper_begins(tmp_path: Path) -> None:
    """The sweep is cancelled in the middle of one; the thread goes on."""
    journal = Journal(tmp_path, GOPHER, "boot")
    ours, after = Book(journal, GOPHER, Trouble.RAISED), book(tmp_path)
    ours.open()
    has_begun, is_given = threading.Event(), threading.Event()

    def nothing(content: Content) -> Iterable[Record]:
        has_begun.set()
        is_given.wait(0.3)  # in vain, as the next keeper waits for us
        return []

    def rewrite() -> None:
        with journal.alone():
            journal.rewrite(nothing)

    rewriting = threading.Thread(target=rewrite)
    rewriting.start()
    assert await asyncio.to_thread(has_begun.wait, DEADLINE_S)
    await asyncio.to_thread(ours.close)
    after.open()
    after.begin(units("a"), "life")
    is_given.set()
    await asyncio.to_thread(rewriting.join, DEADLINE_S)
    assert after.of_units(units("a"))
    after.close()


async def test_compacting_hides_no_record_of_another_process(tmp_path: Path) -> None:
    ours, others = book(tmp_path), book(tmp_path)
    ours.open()
    others.open()
    ours.close_use(ours.begin(units(*(f"much-{number}" for number in range(5000))), "life").key)
    others.begin(units("a"), "life")
    await ours.compact()
    assert ours.of_units(units("a"))
    await ours.compact()
    assert ours.path.stat().st_size < 10_000
    ours.close()
    others.close()


LONGEST = ResourceName(f"{('d' * 60 + '.') * 4}/{'t' * 63}".replace("./", "/"))


def test_longest_resource_name_has_a_journal_of_its_own(tmp_path: Path) -> None:
    assert parse_resource_name(LONGEST) == LONGEST
    other = ResourceName(LONGEST.replace("t", "u"))
    paths = [Journal(tmp_path, resource, "boot").path for resource in (LONGEST, other, GOPHER)]
    assert len(set(paths)) == 3
    assert paths[2].name == "example.com_gopher.journal"
    ours = Book(Journal(tmp_path, LONGEST, "boot"), LONGEST, Trouble.RAISED)
    ours.open()
    assert ours.path.exists()
    ours.close()


async def test_journal_that_cannot_be_opened_again_closes_no_file_of_others(tmp_path: Path) -> None:
    """Numbers of closed files are given anew: a connection to a kubelet may get the one of the journal."""
    ours = book(tmp_path)
    ours.open()
    ours.begin(units("a"), "life")
    ours.path.unlink()
    with no_new_files(), pytest.raises(PathUnusable):
        ours.begin(units("b"), "life")
    others = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) for _ in range(64)]
    try:
        ours.begin(units("c"), "life")
        assert all(os.path.samestat(os.fstat(other), os.stat(os.devnull)) for other in others)
        ours.close()
        assert all(os.path.samestat(os.fstat(other), os.stat(os.devnull)) for other in others)
    finally:
        for other in others:
            with suppress(OSError):  # closed already, which is what is looked for
                os.close(other)


async def test_journal_that_cannot_be_opened_again_is_given_up_whole(tmp_path: Path) -> None:
    ours = book(tmp_path)
    ours.open()
    ours.begin(units("a"), "life")
    ours.path.unlink()
    with no_new_files(), pytest.raises(PathUnusable):
        ours.begin(units("b"), "life")
    ours.close()
    after = book(tmp_path)
    after.open()
    assert after.is_ours
    after.close()


async def test_journal_made_on_a_full_disk_says_of_which_boot_it_is_once_there_is_room(tmp_path: Path) -> None:
    ours = book(tmp_path)
    ours.open()
    ours.path.unlink()
    with full_after(0), pytest.raises(PathUnusable):
        ours.begin(units("a"), "life")
    ours.begin(units("b"), "life")
    header = Journal(tmp_path, GOPHER, "boot").read().header
    ours.close()
    assert header is not None
    assert header.boot == "boot"


async def test_unfinished_files_of_killed_keepers_are_removed_and_no_others(tmp_path: Path) -> None:
    made = book(tmp_path)
    made.open()
    unfinished = tmp_path / f".{made.path.name}.0123456789ab.tmp"
    others = [tmp_path / f".{name}.0123456789ab.tmp" for name in (f"{made.path.name}.b.journal", "other.journal")]
    for each in (unfinished, *others):
        each.touch()
    second = book(tmp_path)
    second.open()  # beside the keeper, which may be writing
    assert unfinished.exists()
    second.close()
    made.close()
    made.open()
    assert not unfinished.exists()
    assert all(each.exists() for each in others)
    made.close()
