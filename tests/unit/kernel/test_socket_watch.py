from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugbay.kernel.inotify import Inotify, InotifyEvent, Mask
from plugbay.kernel.socket_watch import SocketWatch, watch_sockets

DEADLINE_S = 30


@pytest.fixture
def root() -> Iterator[Path]:
    """Short, because a socket's path ends at 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="pb") as directory:
        yield Path(directory)


def bind(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    return path


def replace(path: Path) -> None:
    bind(path.with_name(".new")).rename(path)


def remake(path: Path) -> None:
    path.unlink()
    bind(path)


async def changed(watch: SocketWatch) -> frozenset[Path]:
    async with asyncio.timeout(DEADLINE_S):
        return await anext(watch)


async def until(watch: SocketWatch, *paths: Path) -> None:
    """Wait until exactly these sockets are there."""
    async with asyncio.timeout(DEADLINE_S):
        while set(watch.sockets) != set(paths):
            await anext(watch)


async def test_sockets_that_are_there_are_found_first(root: Path) -> None:
    there = {bind(root / "a.sock"), bind(root / "sub" / "deep" / "b.sock")}
    async with watch_sockets(root) as watch:
        assert await changed(watch) == there
        assert set(watch.sockets) == there


@pytest.mark.parametrize(
    ("prepare", "change"),
    [
        pytest.param(lambda r: None, lambda r: bind(r / "x"), id="bound"),
        pytest.param(lambda r: (r / "sub").mkdir(), lambda r: bind(r / "sub/x"), id="bound in a directory"),
        pytest.param(lambda r: None, lambda r: bind(r / "new/deep/x"), id="bound in a new directory"),
        pytest.param(lambda r: bind(r / ".tmp"), lambda r: (r / ".tmp").rename(r / "x"), id="renamed to"),
        pytest.param(lambda r: bind(r / ".d/x"), lambda r: (r / ".d").rename(r / "d"), id="directory renamed to"),
        pytest.param(lambda r: bind(r / ".y"), lambda r: (r / "x").symlink_to(".y"), id="linked to"),
        pytest.param(lambda r: (r / "x").touch(), lambda r: remake(r / "x"), id="instead of a file"),
    ],
)
async def test_a_socket_appears(
    root: Path, prepare: Callable[[Path], object], change: Callable[[Path], object]
) -> None:
    prepare(root)
    async with watch_sockets(root) as watch:
        assert watch.sockets == {}
        change(root)
        (path,) = await changed(watch)
        assert path.name == "x"
        assert set(watch.sockets) == {path}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda r: (r / "d/x").unlink(), id="removed"),
        pytest.param(lambda r: (r / "d/x").rename(r / "d/.x"), id="renamed"),
        pytest.param(lambda r: shutil.rmtree(r / "d"), id="removed with its directory"),
        pytest.param(lambda r: (r / "d").rename(r / ".d"), id="directory renamed"),
        pytest.param(lambda r: (r / "d").rename(r.with_name(r.name + "-moved")), id="directory moved out"),
        pytest.param(shutil.rmtree, id="everything removed"),
    ],
)
async def test_a_socket_vanishes(root: Path, change: Callable[[Path], object]) -> None:
    inside = root / "root"
    path = bind(inside / "d" / "x")
    async with watch_sockets(inside) as watch:
        assert await changed(watch) == {path}
        change(inside)
        assert await changed(watch) == {path}
        assert watch.sockets == {}


@pytest.mark.parametrize("change", [remake, replace])
async def test_a_socket_made_again_is_another_one(root: Path, change: Callable[[Path], None]) -> None:
    path = bind(root / "x")
    async with watch_sockets(root) as watch:
        assert await changed(watch) == {path}
        first = watch.sockets[path]
        change(path)
        await changed(watch)
        await until(watch, path)
        assert watch.sockets[path] > first


async def test_what_is_no_socket_or_hidden_is_ignored(root: Path) -> None:
    (root / "elsewhere").mkdir()
    bind(root / "elsewhere" / "s")
    inside = root / "root"
    inside.mkdir()
    async with watch_sockets(inside) as watch:
        (inside / "file").touch()
        os.mkfifo(inside / "pipe")
        (inside / "dangling").symlink_to("nowhere")
        (inside / "linked").symlink_to(root / "elsewhere")
        bind(inside / ".x")
        bind(inside / ".hidden" / "x")
        last = bind(inside / "last")
        assert await changed(watch) == {last}
        assert set(watch.sockets) == {last}
    async with watch_sockets(inside) as watch:
        assert set(watch.sockets) == {last}


async def test_a_directory_moved_inside_is_still_watched(root: Path) -> None:
    bind(root / "old" / "x")
    async with watch_sockets(root) as watch:
        (root / "old").rename(root / "new")
        await until(watch, root / "new" / "x")
        bind(root / "new" / "y")
        await until(watch, root / "new" / "x", root / "new" / "y")


@pytest.mark.parametrize("change", [shutil.rmtree, lambda root: root.rename(root.with_name("moved"))])
async def test_the_iteration_ends_with_the_directory(root: Path, change: Callable[[Path], object]) -> None:
    inside = root / "root"
    inside.mkdir()
    async with watch_sockets(inside) as watch:
        change(inside)
        async with asyncio.timeout(DEADLINE_S):
            assert [item async for item in watch] == []


async def test_lost_events_are_made_up_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stays, goes, again = (bind(root / name) for name in ("stays", "goes", "again"))
    async with watch_sockets(root) as watch:
        assert await changed(watch) == {stays, goes, again}
        before = dict(watch.sockets)
        goes.unlink()
        replace(again)
        new = bind(root / "sub" / "new")

        async def overflow(self: Inotify) -> list[InotifyEvent]:
            monkeypatch.undo()
            self.receive_nowait()
            return [InotifyEvent(-1, Mask.Q_OVERFLOW, "")]

        monkeypatch.setattr(Inotify, "receive", overflow)
        assert await changed(watch) == {goes, again, new}
        assert watch.sockets[stays] == before[stays]
        assert watch.sockets[again] not in before.values()
        bind(root / "sub" / "later")
        await until(watch, stays, again, new, root / "sub" / "later")


async def test_without_inotify_it_looks_now_and_then(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(self: Inotify) -> Inotify:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(Inotify, "__aenter__", refuse)
    async with watch_sockets(root, poll_interval_s=0.001) as watch:
        path = bind(root / "x")
        assert await changed(watch) == {path}
        path.unlink()
        assert await changed(watch) == {path}
        root.rename(root.with_name(root.name + "-moved"))
        async with asyncio.timeout(DEADLINE_S):
            assert [item async for item in watch] == []
    root.with_name(root.name + "-moved").rename(root)
    assert len(caplog.records) == 1


NAMES = ["a", "b", "d/a", "d/e/a", ".h/a", ".s"]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(["bind", "unlink", "replace"])), max_size=12))
def test_it_ends_up_with_the_sockets_that_a_fresh_look_finds(steps: list[tuple[str, str]]) -> None:
    asyncio.run(_follow(steps))


async def _follow(steps: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory(prefix="pb") as directory:
        root = Path(directory)
        async with watch_sockets(root) as watch:
            for name, step in steps:
                path = root / name
                if step == "replace":
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.unlink(missing_ok=True)
                    bind(path)
                elif step == "unlink":
                    path.unlink(missing_ok=True)
                elif not path.exists():
                    bind(path)
                await asyncio.sleep(0)
            visible = {root / name for name in NAMES if not name.startswith(".") and (root / name).exists()}
            await until(watch, *visible)
