"""What a journal says after its disk was full, and to whom it belongs."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import resource
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import pytest

from plugbay.errors import PathUnusable
from plugbay.model.assignments import Origin
from plugbay.model.ids import DeviceId, ResourceName, parse_resource_name
from plugbay.sdk.release.ledger.journal import Journal
from plugbay.sdk.release.ledger.ledger import Ledger, Trouble
from plugbay.sdk.release.uses import UsePhase

GOPHER = ResourceName("example.com/gopher")
DEADLINE_S = 20.0
SYNC_S = 0.5


def ledger(directory: Path, trouble: Trouble = Trouble.RAISED) -> Ledger:
    return Ledger(Journal(directory, GOPHER, "boot"), GOPHER, trouble)


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
    ours = ledger(tmp_path)
    ours.open()
    ours.begin(units("a"), "life")
    with full_after(ours.path.stat().st_size + 20), pytest.raises(PathUnusable):
        ours.begin(units("b"), "life")
    ours.begin(units("c"), "life")
    ours.close()
    after = ledger(tmp_path)
    after.open()
    assert {unit for use in after.uses() for unit in use.units} == {"a", "c"}
    after.close()


async def test_a_line_torn_by_another_process_spoils_none_of_ours(tmp_path: Path) -> None:
    ours = ledger(tmp_path)
    ours.open()
    ours.begin(units("a"), "life")
    with ours.path.open("ab") as journal:
        journal.write(b'0badcafe {"use":')
    ours.begin(units("b"), "life")
    assert {unit for use in ours.uses() for unit in use.units} == {"a", "b"}
    ours.close()
    after = ledger(tmp_path)
    after.open()
    assert {unit for use in after.uses() for unit in use.units} == {"a", "b"}
    after.close()


async def test_torn_line_is_dropped_by_the_next_keeper(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a", "b", "c"):
        ours = ledger(tmp_path)
        ours.open()
        assert ours.answered(ours.begin(units(name), "life").key)
        ours.close()
        with ours.path.open("ab") as journal:
            journal.write(b"torn")
    assert "damaged" not in caplog.text


async def test_what_another_process_releases_is_not_given(tmp_path: Path) -> None:
    """Three processes overlap: the first ends, and the third takes over before the second one has answered."""
    second, third = ledger(tmp_path), ledger(tmp_path)
    first = ledger(tmp_path)
    first.open()
    second.open()
    use = second.begin(units("a"), "life")
    first.close()
    third.open()
    [found] = third.uses()
    assert (third.is_ours, found.phase) == (True, UsePhase.RELEASING)
    assert not second.answered(use.key)
    third.close_use(use.key)
    assert not second.answered(use.key)
    second.close()
    third.close()


async def test_answered_use_is_open_and_over_only_once(tmp_path: Path) -> None:
    ours = ledger(tmp_path)
    ours.open()
    use = ours.begin(units("a"), "life")
    assert ours.answered(use.key)
    over = ours.end(use.key, Origin.SYNTHESISED)
    assert over is not None
    assert over.phase is UsePhase.RELEASING
    ours.close()


async def test_who_is_lazy_goes_on_beside_a_journal_that_cannot_be_opened(tmp_path: Path) -> None:
    keeper = ledger(tmp_path)
    keeper.open()
    keeper.close()
    keeper.path.with_suffix(".writing").unlink()
    keeper.path.with_suffix(".writing").mkdir()
    lazy = ledger(tmp_path, Trouble.LOGGED)
    with pytest.raises(PathUnusable):
        lazy.open()
    assert lazy.of_units(units("a")) == []


async def test_reboot_with_a_full_disk_makes_nobody_take_later_uses_for_earlier_ones(tmp_path: Path) -> None:
    ours = ledger(tmp_path)
    ours.open()
    ours.close()
    lazy = Ledger(Journal(tmp_path, GOPHER, "boot 2"), GOPHER, Trouble.LOGGED)
    with full_after(0), pytest.raises(PathUnusable):
        lazy.open()
    use = lazy.begin(units("a"), "life")
    assert lazy.answered(use.key)
    lazy.close()
    after = Ledger(Journal(tmp_path, GOPHER, "boot 2"), GOPHER, Trouble.LOGGED)
    after.open()
    assert [(use.key, use.phase) for use in after.uses()] == [(use.key, UsePhase.OPEN)]
    after.close()


async def test_journal_that_is_opened_until_it_can_be_leaves_no_files_open(tmp_path: Path) -> None:
    ours = ledger(tmp_path)
    ours.path.mkdir()
    for _ in range(3):
        with pytest.raises(PathUnusable):
            ours.open()
    ours.close()
    assert not [path for path in open_files() if path.startswith(str(tmp_path))]


async def test_who_cannot_rewrite_what_he_takes_over_knows_what_it_says(tmp_path: Path) -> None:
    keeper, ours = ledger(tmp_path), ledger(tmp_path)
    keeper.open()
    ours.open()
    ours.begin(units("b"), "life")
    use = keeper.begin(units("a"), "life")
    assert keeper.answered(use.key)
    keeper.close()
    with full_after(64), pytest.raises(PathUnusable):  # the lock's file is shorter
        await ours.take_over()
    assert ours.is_ours
    assert [each.key for each in ours.of_units(units("a"))] == [use.key]
    ours.close()


async def test_what_a_take_over_ends_is_written_though_the_journal_was_replaced_unheard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise PathUnusable(str(tmp_path), "disk is full")

    keeper, ours, third = ledger(tmp_path), ledger(tmp_path), ledger(tmp_path)
    keeper.open()
    ours.open()
    ours.begin(units("b"), "life")
    use = long(keeper).begin(units("a"), "life")
    await keeper.compact()
    keeper.close()
    monkeypatch.setattr(ours._journal, "prepare", refuse)
    with pytest.raises(PathUnusable):
        await ours.take_over()
    third.open()
    assert not third.answered(use.key)
    third.close()
    ours.close()


async def test_rewrite_that_outlives_its_task_changes_nothing(tmp_path: Path) -> None:
    """The sweep is cancelled in the middle of one; the thread goes on until the disk has it."""
    ours, after = ledger(tmp_path), ledger(tmp_path)
    ours.open()
    with slow_syncs() as syncing:
        compacting = asyncio.create_task(long(ours).compact())
        assert await asyncio.to_thread(syncing.wait, DEADLINE_S)
        compacting.cancel()
        await asyncio.wait([compacting])
    ours.close()
    after.open()
    after.begin(units("a"), "life")
    assert after.of_units(units("a"))
    after.close()
    assert not list(tmp_path.glob(".*.tmp"))


async def test_rewrite_that_cannot_be_put_in_place_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    ours = ledger(tmp_path)
    ours.open()
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PathUnusable):
        await long(ours).compact()
    assert not list(tmp_path.glob(".*.tmp"))
    ours.close()


def test_removed_journal_is_made_anew_alone(tmp_path: Path) -> None:
    """The event loop may write, and so make it, in the same moment: each would close what the other writes to."""
    were_locked = []

    class Watched(Journal):
        def _open(self) -> None:
            were_locked.append(self._thread.locked())
            super()._open()

    with Watched(tmp_path, GOPHER, "boot") as journal:
        journal.prepare(lambda content: content.uses).discard()
    assert were_locked == [True]


async def test_nothing_waits_for_the_disk_while_a_long_journal_is_rewritten(tmp_path: Path) -> None:
    ours, others = ledger(tmp_path), ledger(tmp_path)
    ours.open()
    others.open()
    with slow_syncs() as syncing:
        compacting = asyncio.create_task(long(ours).compact())
        assert await asyncio.to_thread(syncing.wait, DEADLINE_S)
        begun = time.monotonic()
        mine = ours.begin(units("a"), "life")
        theirs = others.begin(units("b"), "life")
        assert time.monotonic() - begun < SYNC_S / 4
        assert not compacting.done()
        await compacting
    assert {use.key for use in ours.of_units(units("a", "b"))} == {mine.key, theirs.key}
    ours.close()
    others.close()
    after = ledger(tmp_path)
    after.open()
    assert {unit for use in after.uses() for unit in use.units} == {"a", "b"}
    after.close()


def long(ours: Ledger) -> Ledger:
    ours.close_use(ours.begin(units(*(f"much-{number}" for number in range(5000))), "life").key)
    return ours


@contextmanager
def slow_syncs() -> Iterator[threading.Event]:
    """Each fsync takes `SYNC_S`, as on a disk that is busy; the event is set when one begins."""
    has_begun, fsync = threading.Event(), os.fsync

    def slow(descriptor: int) -> None:
        has_begun.set()
        time.sleep(SYNC_S)
        fsync(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", slow)
        yield has_begun


async def test_compacting_hides_no_record_of_another_process(tmp_path: Path) -> None:
    ours, others = ledger(tmp_path), ledger(tmp_path)
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
    ours = Ledger(Journal(tmp_path, LONGEST, "boot"), LONGEST, Trouble.RAISED)
    ours.open()
    assert ours.path.exists()
    ours.close()


async def test_journal_that_cannot_be_opened_again_closes_no_file_of_others(tmp_path: Path) -> None:
    """Numbers of closed files are given anew: a connection to a kubelet may get the one of the journal."""
    ours = ledger(tmp_path)
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
    ours = ledger(tmp_path)
    ours.open()
    ours.begin(units("a"), "life")
    ours.path.unlink()
    with no_new_files(), pytest.raises(PathUnusable):
        ours.begin(units("b"), "life")
    ours.close()
    after = ledger(tmp_path)
    after.open()
    assert after.is_ours
    after.close()


async def test_journal_made_on_a_full_disk_says_of_which_boot_it_is_once_there_is_room(tmp_path: Path) -> None:
    ours = ledger(tmp_path)
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
    made = ledger(tmp_path)
    made.open()
    unfinished = tmp_path / f".{made.path.name}.0123456789ab.tmp"
    others = [tmp_path / f".{name}.0123456789ab.tmp" for name in (f"{made.path.name}.b.journal", "other.journal")]
    for each in (unfinished, *others):
        each.touch()
    second = ledger(tmp_path)
    second.open()  # beside the keeper, which may be writing
    assert unfinished.exists()
    second.close()
    made.close()
    made.open()
    assert not unfinished.exists()
    assert all(each.exists() for each in others)
    made.close()


def test_a_journal_of_a_newer_version_is_refused_and_not_touched(tmp_path: Path) -> None:
    header = json.dumps({"format": 2, "boot": "boot", "resource": GOPHER}).encode()
    journal = tmp_path / "example.com_gopher.journal"
    journal.write_bytes(b"%08x %b\n12345678 of a kind to come\n" % (zlib.crc32(header), header))
    before = journal.read_bytes()
    for trouble in Trouble:
        book = ledger(tmp_path, trouble)
        with pytest.raises(
            PathUnusable, match=r"written by a newer plugbay \(format 2, .* up to 1\), and is left as it is"
        ):
            book.open()
        assert not book.is_open  # so that nothing is written to it in our format
        book.close()
    assert journal.read_bytes() == before
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".journal", ".lock", ".writing"]
