"""The rule of watching: when all is quiet, what was last reported is what is there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plugbay.kernel.watch import PathWatch, watch_paths

NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
OPERATIONS = st.one_of(
    st.tuples(st.just("write"), PATHS, PATHS),
    st.tuples(st.just("mkdir"), PATHS, PATHS),
    st.tuples(st.just("remove"), PATHS, PATHS),
    st.tuples(st.just("rename"), PATHS, PATHS),
    st.tuples(st.just("link"), PATHS, PATHS),
    st.tuples(st.just("look"), PATHS, PATHS),
)


def perform(root: Path, operation: str, first: Path, second: Path) -> None:
    match operation:
        case "write":
            first.parent.mkdir(parents=True, exist_ok=True)
            first.write_text(str(second))
        case "mkdir":
            first.mkdir(parents=True)
        case "remove" if first.is_dir() and not first.is_symlink():
            shutil.rmtree(first)
        case "remove":
            first.unlink()
        case "rename":
            first.rename(second)
        case "link":
            first.parent.mkdir(parents=True, exist_ok=True)
            first.symlink_to(os.path.relpath(second, first.parent))


def state(path: Path) -> object:
    """What a user of a watched path can see: what it is, its content or its entries, and which inode it is."""
    try:
        found = path.stat()
        if path.is_dir():
            return found.st_ino, frozenset(os.listdir(path))
        return found.st_ino, found.st_mode, found.st_mtime_ns, path.read_bytes()
    except OSError:
        return None


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(OPERATIONS, max_size=12), st.lists(PATHS, min_size=1, max_size=3, unique=True))
def test_every_change_is_followed_by_a_report(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, str, str]], watched: list[str]
) -> None:
    root = tmp_path_factory.mktemp("tree")
    paths = [root / path for path in watched]

    async def run() -> None:
        async with watch_paths(paths, settle_s=0) as changes:
            seen = {path: state(path) for path in paths}
            for operation, first, second in operations:
                if operation == "look":
                    await take(changes, seen)
                    continue
                try:
                    perform(root, operation, root / first, root / second)
                except OSError:
                    continue
            await take(changes, seen)
            assert seen == {path: state(path) for path in paths}

    asyncio.run(run())
    shutil.rmtree(root)


async def test_no_change_is_lost_while_watches_are_being_added(tmp_path: Path) -> None:
    paths = [tmp_path / path for path in ("a", "a/b", "a/b/c", "b/a", "c")]
    numbers = random.Random(1)  # fixed, so that a failure comes again
    names = ["/".join(numbers.choices("abc", k=numbers.randint(1, 3))) for _ in range(4000)]
    operations = numbers.choices(["write", "mkdir", "remove", "rename", "link"], k=2000)
    done = asyncio.Event()

    def churn() -> None:
        for operation, first, second in zip(operations, names[::2], names[1::2], strict=True):
            with contextlib.suppress(OSError):
                perform(tmp_path, operation, tmp_path / first, tmp_path / second)

    async def look(changes: PathWatch, seen: dict[Path, object]) -> None:
        async for changed in changes:
            seen.update((path, state(path)) for path in changed)
            if done.is_set():
                return

    async with asyncio.timeout(30), watch_paths([*paths, tmp_path / "done"], settle_s=0) as changes:
        seen: dict[Path, object] = dict.fromkeys([*paths, tmp_path / "done"])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(look(changes, seen))
            await asyncio.to_thread(churn)
            done.set()
            (tmp_path / "done").touch()
        await take(changes, seen)
        assert seen == {path: state(path) for path in seen}


async def take(changes: PathWatch, seen: dict[Path, object]) -> None:
    """Look again at what the kernel says has changed, until it has nothing more to say."""
    try:
        while True:
            async with asyncio.timeout(0):
                for path in await anext(changes):
                    seen[path] = state(path)
    except TimeoutError:
        pass
