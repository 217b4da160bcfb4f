from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

from plugbay.sdk.watching import PathChanges, watching

DEADLINE_S = 30


async def next_of(changes: PathChanges) -> frozenset[Path]:
    return await asyncio.wait_for(anext(changes), DEADLINE_S)


def inotify_instances() -> int:
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of this very look, or of another thread
            found.append(os.readlink(entry))
    return sum("inotify" in target for target in found)


async def test_each_reader_hears_of_its_own_paths(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    async with watching() as watches:
        with watches.watch([one]) as ones, watches.watch([one, other]) as both:
            other.touch()
            assert await next_of(both) == {other}
            one.touch()
            assert await next_of(ones) == {one}
            assert await next_of(both) == {one}


async def test_path_is_watched_as_long_as_somebody_wants_it(tmp_path: Path) -> None:
    path = tmp_path / "path"
    async with watching() as watches:
        with watches.watch([path]) as staying:
            with watches.watch([path]):
                pass
            path.touch()
            assert await next_of(staying) == {path}
        with watches.watch([path]) as later:
            path.unlink()
            assert await next_of(later) == {path}


async def test_all_readers_share_one_instance(tmp_path: Path) -> None:
    before = inotify_instances()
    async with watching() as watches:
        with watches.watch([tmp_path / "a"]), watches.watch([tmp_path / "b"]), watches.watch([tmp_path]):
            assert inotify_instances() == before + 1
    assert inotify_instances() == before


async def test_many_readers_of_one_directory_do_not_disturb_each_other(tmp_path: Path) -> None:
    async with watching() as watches:
        with watches.watch([tmp_path / "none"]) as quiet:
            for number in range(50):
                path = tmp_path / f"{number}"
                with watches.watch([path, tmp_path / "kubelet.sock"]) as changes:
                    path.touch()
                    assert await next_of(changes) == {path}
            (tmp_path / "none").touch()
            assert await next_of(quiet) == {tmp_path / "none"}
