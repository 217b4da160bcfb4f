"""Instances of the scratch plugin that use one directory at the same time: each call of one may meet the other."""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from plugbay.errors import PathUnusable
from plugbay.kernel.loop import FileSlice, LoopDevices
from plugbay.plugins.scratch.disks import MARK, Disks

RESOURCE = "example.com/scratch"
SIZE = 1 << 20
SECRET = b"secret".ljust(512, b"!")


class Newcomer:
    """An instance where no loop device can be had: it gets as far as the file of a disk."""

    def __init__(self, machine: Path, *, owner: str = RESOURCE) -> None:
        (machine / "sys" / "block").mkdir(parents=True, exist_ok=True)
        (machine / "loop-control").touch()
        self.directory = machine / "disks"
        self._disks = Disks(self.directory, owner=owner, size=SIZE, loops=LoopDevices(machine, machine / "sys"))

    def start(self) -> None:
        self._disks.check()

    def attach(self, offset: int = 0) -> None:
        with pytest.raises(OSError, match=os.strerror(errno.ENOTTY)):
            self._disks.attach("disk0", FileSlice(self.directory / "disk0", offset, SIZE - offset))


def at_call(number: int, another: Callable[[], object], action: Callable[[], object]) -> bool:
    """Do ``action``, and ``another``, as another process would, after call ``number`` of C; whether there was one."""
    calls = itertools.count()

    def step(frame: FrameType, event: str, function: object) -> None:
        if event == "c_return" and next(calls) == number:
            sys.setprofile(None)
            another()

    sys.setprofile(step)
    try:
        action()
    finally:
        sys.setprofile(None)
    return next(calls) > number


def with_another_at_each_step(action: Callable[[Path], object], another: Callable[[Path], object], path: Path) -> None:
    machines = (path / str(number) for number in itertools.count())
    for number, machine in enumerate(machines):
        if not at_call(number, functools.partial(another, machine), functools.partial(action, machine)):
            return


def test_instance_may_start_while_another_takes_the_directory_into_use(tmp_path: Path) -> None:
    with_another_at_each_step(
        lambda machine: Newcomer(machine).attach(), lambda machine: Newcomer(machine).start(), tmp_path
    )


def test_directory_may_be_taken_into_use_while_another_instance_starts(tmp_path: Path) -> None:
    with_another_at_each_step(
        lambda machine: Newcomer(machine).start(), lambda machine: Newcomer(machine).attach(), tmp_path
    )


def test_directory_is_of_the_resource_that_took_it_first(tmp_path: Path) -> None:
    taken: list[Path] = []

    def take(machine: Path, owner: str) -> None:
        with contextlib.suppress(PathUnusable):
            Newcomer(machine, owner=owner).attach()
            taken.append(machine)

    with_another_at_each_step(
        lambda machine: take(machine, RESOURCE), lambda machine: take(machine, "example.com/other"), tmp_path
    )
    assert len(set(taken)) == len(taken)


def test_two_that_make_the_file_of_a_disk_at_once_take_nothing_from_each_other(tmp_path: Path) -> None:
    """One has given a partition to a container before the other one goes on."""
    written: list[Path] = []

    def give_and_write(machine: Path) -> None:
        newcomer = Newcomer(machine)
        newcomer.attach()
        with open(newcomer.directory / "disk0", "rb+", buffering=0) as disk:
            disk.write(SECRET)
        written.append(newcomer.directory / "disk0")

    with_another_at_each_step(lambda machine: Newcomer(machine).attach(SIZE // 2), give_and_write, tmp_path)
    assert all(disk.read_bytes().startswith(SECRET) and disk.stat().st_size == SIZE for disk in written)
    assert len(written) > 8


def test_directory_whose_mark_lost_its_content_is_taken_once_it_says_whose_it_is(tmp_path: Path) -> None:
    """A crash of plugbay before it marked directories whole, or a full disk."""
    newcomer = Newcomer(tmp_path)
    newcomer.attach()
    mark = newcomer.directory / MARK
    mark.write_bytes(b"")
    with pytest.raises(PathUnusable) as caught:
        newcomer.start()
    assert str(caught.value) == (
        f"{newcomer.directory}: cannot hold scratch disks: {MARK} in it is empty, as an earlier version may have left "
        f"it in a crash; if its disks are those of {RESOURCE}, write that name into it"
    )
    mark.write_text(f"{RESOURCE}\n")
    newcomer.start()
