from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

from plugbay.kernel.inotify import Inotify, InotifyEvent, Mask

DEADLINE_S = 30


async def test_events_carry_watch_mask_and_name(tmp_path: Path) -> None:
    async with Inotify() as inotify, asyncio.timeout(DEADLINE_S):
        wd = inotify.add(tmp_path, Mask.CREATE | Mask.DELETE)
        (tmp_path / "file").touch()
        (tmp_path / "directory").mkdir()
        (tmp_path / "file").unlink()
        assert [await anext(inotify) for _ in range(3)] == [
            InotifyEvent(wd, Mask.CREATE, "file"),
            InotifyEvent(wd, Mask.CREATE | Mask.ISDIR, "directory"),
            InotifyEvent(wd, Mask.DELETE, "file"),
        ]


async def test_a_waiting_consumer_wakes_up(tmp_path: Path) -> None:
    async with Inotify() as inotify, asyncio.timeout(DEADLINE_S):
        inotify.add(tmp_path, Mask.CREATE)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(inotify.receive())
            await asyncio.sleep(0)
            (tmp_path / "late").touch()
        assert [event.name for event in waiting.result()] == ["late"]


async def test_names_that_are_not_utf8_survive(tmp_path: Path) -> None:
    async with Inotify() as inotify, asyncio.timeout(DEADLINE_S):
        inotify.add(tmp_path, Mask.CREATE)
        name = os.fsdecode(b"g\xff1")
        (tmp_path / name).touch()
        assert (await anext(inotify)).name == name


async def test_more_events_than_one_read_holds(tmp_path: Path) -> None:
    names = [f"{number:0>200}" for number in range(300)]
    async with Inotify() as inotify, asyncio.timeout(DEADLINE_S):
        inotify.add(tmp_path, Mask.CREATE)
        for name in names:
            (tmp_path / name).touch()
        assert [(await anext(inotify)).name for _ in names] == names


async def test_events_read_by_iteration_are_not_lost_to_receive(tmp_path: Path) -> None:
    async with Inotify() as inotify, asyncio.timeout(DEADLINE_S):
        inotify.add(tmp_path, Mask.CREATE)
        for name in "abc":
            (tmp_path / name).touch()
        await anext(inotify)
        assert [event.name for event in await inotify.receive()] == ["b", "c"]


async def test_a_removed_watch_says_ignored_and_then_nothing(tmp_path: Path) -> None:
    async with Inotify() as inotify:
        wd = inotify.add(tmp_path, Mask.CREATE)
        inotify.remove(wd)
        inotify.remove(wd)
        (tmp_path / "unseen").touch()
        assert inotify.receive_nowait() == [InotifyEvent(wd, Mask.IGNORED, "")]
        assert inotify.receive_nowait() == []


async def test_a_lost_event_is_reported_as_overflow(tmp_path: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 100_000:
        pytest.skip("the event queue is too long to fill")
    first, second = tmp_path / "first", tmp_path / "second"
    first.touch()
    async with Inotify() as inotify, asyncio.timeout(30):
        inotify.add(tmp_path, Mask.MOVED_FROM)
        # Names alternate, or the kernel would merge equal neighbours.
        for _ in range(limit // 2 + 1):
            first.rename(second)
            second.rename(first)
        async for event in inotify:
            if event.mask & Mask.Q_OVERFLOW:
                assert event.wd == -1
                break


async def test_close_ends_a_waiting_iteration(tmp_path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), Inotify() as inotify:
        inotify.add(tmp_path, Mask.CREATE)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(inotify.receive())
            await asyncio.sleep(0)
            inotify.close()
            inotify.close()
        assert waiting.result() == []
        assert [event async for event in inotify] == []


async def test_a_cancelled_wait_leaves_no_reader(tmp_path: Path) -> None:
    async with Inotify() as inotify, asyncio.timeout(DEADLINE_S):
        inotify.add(tmp_path, Mask.CREATE)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await inotify.receive()
        (tmp_path / "after").touch()
        assert (await anext(inotify)).name == "after"


async def test_two_consumers_are_refused(tmp_path: Path) -> None:
    async with Inotify() as inotify, asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(inotify.receive())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="two tasks"):
            await inotify.receive()
        inotify.close()


async def test_a_missing_path_is_named_in_the_error(tmp_path: Path) -> None:
    async with Inotify() as inotify:
        with pytest.raises(FileNotFoundError) as caught:
            inotify.add(tmp_path / "absent", Mask.CREATE)
        assert caught.value.filename == str(tmp_path / "absent")


async def test_the_descriptor_is_closed_on_exit() -> None:
    before = instances()
    async with Inotify():
        assert instances() == before + 1
    assert instances() == before


def instances() -> int:
    """Of this process, in which threads of other libraries may open and close files at any time."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(entry))
    return sum("inotify" in target for target in found)
