"""Watching paths, one kind of change after another."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from plugbay.kernel.inotify import Inotify, InotifyEvent, Mask
from plugbay.kernel.watch import PathWatch, watch_paths

DEADLINE_S = 30

Change = Callable[[Path], object]


async def quiet(changes: PathWatch) -> None:
    """Take what the kernel knows already, so that the next report is about what comes next; wants ``settle_s=0``."""
    while True:
        try:
            async with asyncio.timeout(0):
                await anext(changes)
        except TimeoutError:
            return


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def replace(path: Path, text: str) -> None:
    write(path.with_name(".new"), text).rename(path)


def rename_tree_in(root: Path, target: Path) -> None:
    tree = root / "elsewhere"
    top = target.relative_to(root).parts[0]
    write(tree / target.relative_to(root / top), "tree")
    tree.rename(root / top)


def swap_link(link: Path, target: str) -> None:
    fresh = link.with_name(".fresh")
    fresh.symlink_to(target)
    fresh.rename(link)


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def recreate(path: Path) -> None:
    path.unlink()
    bind(path)


def config_map(directory: Path) -> None:
    """As a kubelet lays out a mounted ConfigMap."""
    write(directory / "..v1/key", "old")
    write(directory / "..v2/key", "new")
    (directory / "..data").symlink_to("..v1")
    (directory / "key").symlink_to("..data/key")


@pytest.mark.parametrize(
    ("prepare", "path", "change"),
    [
        pytest.param(lambda r: None, "f", lambda r: write(r / "f"), id="file appears"),
        pytest.param(lambda r: write(r / "f"), "f", lambda r: (r / "f").unlink(), id="file disappears"),
        pytest.param(lambda r: write(r / "f"), "f", lambda r: (r / "f").write_text("x"), id="file is written"),
        pytest.param(lambda r: write(r / "f"), "f", lambda r: (r / "f").chmod(0o600), id="file changes mode"),
        pytest.param(lambda r: write(r / "f"), "f", lambda r: replace(r / "f", "x"), id="file is replaced"),
        pytest.param(lambda r: bind(r / "s"), "s", lambda r: recreate(r / "s"), id="socket is made again"),
        pytest.param(lambda r: bind(r / "s"), "s", lambda r: (r / "s").unlink(), id="socket vanishes"),
        pytest.param(lambda r: (r / "d").mkdir(), "d", lambda r: write(r / "d/e"), id="entry appears"),
        pytest.param(lambda r: write(r / "d/e"), "d", lambda r: (r / "d/e").unlink(), id="entry disappears"),
        pytest.param(lambda r: write(r / "d/e"), "d", lambda r: shutil.rmtree(r / "d"), id="directory disappears"),
        pytest.param(
            lambda r: write(r / "d/e", "good"), "d", lambda r: (r / "d/e").write_text("bad"), id="entry is written"
        ),
        pytest.param(lambda r: None, "d/e/f", lambda r: write(r / "d/e/f"), id="several levels appear"),
        pytest.param(lambda r: None, "d/e/f", lambda r: rename_tree_in(r, r / "d/e/f"), id="tree is renamed in"),
        pytest.param(
            lambda r: write(r / "d/e/f/g"), "d/e/f/g", lambda r: (r / "d").rename(r / "x"), id="ancestor is renamed"
        ),
        pytest.param(
            lambda r: write(r / "d/e/f/g"), "d/e/f/g", lambda r: shutil.rmtree(r / "d"), id="whole tree is removed"
        ),
        pytest.param(lambda r: config_map(r), "key", lambda r: swap_link(r / "..data", "..v2"), id="link is swapped"),
        pytest.param(
            lambda r: config_map(r), "key", lambda r: (r / "..v1/key").write_text("x"), id="written behind links"
        ),
        pytest.param(
            lambda r: (r / "l").symlink_to("l"), "l/f", lambda r: swap_link(r / "l", "."), id="link loop is cut"
        ),
        pytest.param(
            lambda r: (r / "l").symlink_to(r / "a/b"), "l/f", lambda r: write(r / "a/b/f"), id="dangling link fills"
        ),
        pytest.param(
            lambda r: [write(r / "a/x"), (r / "a/up").symlink_to("../b")],
            "a/up",
            lambda r: write(r / "b/f"),
            id="link upwards fills",
        ),
        pytest.param(
            lambda r: write(r / "d"), "d/e", lambda r: [(r / "d").unlink(), write(r / "d/e")], id="file in the way"
        ),
    ],
)
@pytest.mark.parametrize("inotify", ["inotify", "polling"])
async def test_a_change_is_reported(
    tmp_path: Path,
    prepare: Change,
    path: str,
    change: Change,
    inotify: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if inotify == "polling":
        forbid_inotify(monkeypatch)
    prepare(tmp_path)
    target = tmp_path / path
    async with asyncio.timeout(DEADLINE_S), watch_paths([target], poll_interval_s=0.01) as changes:
        change(tmp_path)
        assert await anext(changes) == {target}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda r: write(r / "sibling"), id="sibling of the path"),
        pytest.param(lambda r: write(r / "a/b/sibling"), id="sibling deeper"),
        pytest.param(lambda r: (r / "a/b/c/file").read_text(), id="read"),
    ],
)
async def test_what_does_not_matter_is_not_reported(tmp_path: Path, change: Change) -> None:
    target = write(tmp_path / "a/b/c/file")
    other = tmp_path / "last"
    async with asyncio.timeout(DEADLINE_S), watch_paths([target, other]) as changes:
        change(tmp_path)
        write(other)
        assert await anext(changes) == {other}


async def test_a_file_that_is_opened_for_writing_and_not_written_is_reported_once_at_most(tmp_path: Path) -> None:
    """Or who opens what it watches would wake itself for ever."""
    directory, other = tmp_path / "d", tmp_path / "other"
    file = write(directory / "file")
    os.utime(file, (1, 1))
    async with asyncio.timeout(DEADLINE_S), watch_paths([directory, other], settle_s=0) as changes:
        file.open("a").close()
        assert await anext(changes) == {directory}
        file.open("a").close()
        write(other)
        assert await anext(changes) == {other}


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a device node")
async def test_what_is_written_to_device_nodes_wakes_nobody(tmp_path: Path) -> None:
    directory, other = tmp_path / "dev", tmp_path / "other"
    directory.mkdir()
    os.mknod(directory / "null", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    async with asyncio.timeout(DEADLINE_S), watch_paths([directory, other]) as changes:
        (directory / "null").write_text("x")
        write(other)
        assert await anext(changes) == {other}


async def test_one_report_names_every_path_that_changed(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in "abc")
    async with asyncio.timeout(DEADLINE_S), watch_paths([first, second, third]) as changes:
        write(first)
        write(third)
        assert await anext(changes) == {first, third}


async def test_a_directory_and_a_file_in_it_do_not_blind_each_other(tmp_path: Path) -> None:
    file = write(tmp_path / "d/file")
    async with asyncio.timeout(DEADLINE_S), watch_paths([file, tmp_path / "d", tmp_path], settle_s=0) as changes:
        file.write_text("changed")
        assert await anext(changes) == {file, tmp_path / "d"}
        await quiet(changes)
        write(tmp_path / "d/other")
        assert await anext(changes) == {tmp_path / "d"}


async def test_a_path_far_below_another_leaves_its_watch_alone(tmp_path: Path) -> None:
    above = tmp_path / "d"
    above.mkdir()
    async with asyncio.timeout(DEADLINE_S), watch_paths([above, write(above / "a/b/c/f")]) as changes:
        write(above / "other")
        assert await anext(changes) == {above}


@pytest.mark.parametrize("below", ["", "f"], ids=["itself", "an entry"])
async def test_removing_a_directory_that_a_process_still_uses_is_reported(tmp_path: Path, below: str) -> None:
    directory = tmp_path / "a" / "d"
    directory.mkdir(parents=True)
    held = os.open(directory, os.O_RDONLY)
    try:
        async with asyncio.timeout(DEADLINE_S), watch_paths([directory / below], settle_s=0) as changes:
            directory.rmdir()
            assert await anext(changes) == {directory / below}
            await quiet(changes)
            directory.mkdir()
            assert await anext(changes) == {directory / below}
            await quiet(changes)
            write(directory / "f")
            assert await anext(changes) == {directory / below}
    finally:
        os.close(held)


@pytest.mark.parametrize("at", [".", ".."])
async def test_what_appears_while_watches_are_added_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    target = tmp_path / "a/b/f"
    place = Path(os.path.normpath(tmp_path / at))
    interrupt_add(monkeypatch, place, before=lambda: None, after=lambda: write(target))
    async with asyncio.timeout(DEADLINE_S), watch_paths([target], settle_s=0) as changes:
        write(target)
        await quiet(changes)
        target.unlink()
        assert await anext(changes) == {target}


@pytest.mark.parametrize("at", [".", "a", "a/b", "a/b/f"])
async def test_what_is_away_while_watches_are_added_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    target, away = write(tmp_path / "a/b/f"), tmp_path / "away"
    interrupt_add(
        monkeypatch,
        tmp_path / at,
        before=lambda: (tmp_path / "a").rename(away),
        after=lambda: away.rename(tmp_path / "a"),
    )
    async with asyncio.timeout(DEADLINE_S), watch_paths([target], settle_s=0) as changes:
        await quiet(changes)
        (tmp_path / "a").rename(away)
        assert await anext(changes) == {target}


async def test_many_changes_within_the_settle_time_make_two_reports(tmp_path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), watch_paths([tmp_path], settle_s=0.5) as changes:
        write(tmp_path / "first")
        started = asyncio.get_running_loop().time()
        await anext(changes)
        for number in range(20):
            write(tmp_path / str(number))
        await anext(changes)
        assert asyncio.get_running_loop().time() - started >= 0.5
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await anext(changes)


async def test_first_report_waits_for_nothing(tmp_path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), watch_paths([tmp_path], settle_s=2 * DEADLINE_S) as changes:
        write(tmp_path / "first")
        assert await anext(changes) == {tmp_path}


async def test_a_cancelled_wait_loses_nothing(tmp_path: Path) -> None:
    async with asyncio.timeout(DEADLINE_S), watch_paths([tmp_path], settle_s=2 * DEADLINE_S) as changes:
        write(tmp_path / "first")
        await anext(changes)
        write(tmp_path / "second")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await anext(changes)
        changes._next_report = 0.0  # all that time has passed
        assert await anext(changes) == {tmp_path}


async def test_an_overflow_reports_every_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    async with asyncio.timeout(DEADLINE_S), watch_paths([first, second]) as changes:
        lost = InotifyEvent(-1, Mask.Q_OVERFLOW, "")
        monkeypatch.setattr(Inotify, "receive_nowait", lambda _: [lost])
        assert await anext(changes) == {first, second}


async def test_a_relative_path_is_reported_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with asyncio.timeout(DEADLINE_S), watch_paths([Path("f")]) as changes:
        write(tmp_path / "f")
        assert await anext(changes) == {Path("f")}


async def test_polling_is_announced_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    forbid_inotify(monkeypatch)
    with caplog.at_level(logging.WARNING):
        async with watch_paths([tmp_path / "a", tmp_path / "b"], poll_interval_s=0.01):
            pass
    assert [record.getMessage() for record in caplog.records] == [
        f"cannot watch {tmp_path / 'a'}: [Errno 24] Too many open files; looking every 0.01 s instead"
    ]


async def test_a_path_without_watches_left_is_polled_until_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Inotify, "add", refuse(28))
        changes_context = watch_paths([tmp_path / "f"], settle_s=0, poll_interval_s=0.01)
        changes = await changes_context.__aenter__()
    try:
        async with asyncio.timeout(DEADLINE_S):
            write(tmp_path / "f")
            assert await anext(changes) == {tmp_path / "f"}
            await quiet(changes)
            (tmp_path / "f").unlink()
            assert await anext(changes) == {tmp_path / "f"}
        assert not any(watched.blind for watched in changes._watched)
    finally:
        await changes_context.__aexit__(None, None, None)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look everywhere")
async def test_a_directory_that_becomes_readable_is_reported(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    write(hidden / "f")
    hidden.chmod(0)
    try:
        async with asyncio.timeout(DEADLINE_S), watch_paths([hidden / "f"], poll_interval_s=0.01) as changes:
            hidden.chmod(0o700)
            assert await anext(changes) == {hidden / "f"}
    finally:
        hidden.chmod(0o700)


async def test_watches_do_not_pile_up(tmp_path: Path) -> None:
    target = tmp_path / "a/b/c"
    async with asyncio.timeout(DEADLINE_S), watch_paths([target], settle_s=0) as changes:
        for _ in range(20):
            write(target / "x")
            await anext(changes)
            shutil.rmtree(tmp_path / "a")
            await anext(changes)
        await quiet(changes)
        assert changes._inotify is not None
        fdinfo = Path(f"/proc/self/fdinfo/{changes._inotify._fd}").read_text()
        assert fdinfo.count("inotify wd:") == len(changes._watched[0].wds)


def interrupt_add(
    monkeypatch: pytest.MonkeyPatch, path: Path, *, before: Callable[[], object], after: Callable[[], object]
) -> None:
    """Let something happen just before and just after ``path`` is first watched."""
    original = Inotify.add
    interrupted = False

    def add(self: Inotify, watched: str, mask: Mask) -> int:
        nonlocal interrupted
        if interrupted or watched != str(path):
            return original(self, watched, mask)
        interrupted = True
        before()
        try:
            return original(self, watched, mask)
        finally:
            after()

    monkeypatch.setattr(Inotify, "add", add)


def refuse(number: int) -> Callable[..., int]:
    def add(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return add


def forbid_inotify(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(self: Inotify) -> Inotify:
        raise OSError(24, os.strerror(24))

    monkeypatch.setattr(Inotify, "__aenter__", refused)
