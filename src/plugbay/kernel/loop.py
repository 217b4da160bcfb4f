"""Loop devices: parts of files as block devices. All of it blocks, and needs root.

A device does not clear itself when its last user closes it: it has to be there for later users, and goes when
it is told to.

Source: Linux 6.18 ``include/uapi/linux/loop.h``, ``drivers/block/loop.c``; LOOP_CONFIGURE needs 5.8.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from plugbay.values import dataclass

LOOP_CLR_FD: Final = 0x4C01
LOOP_GET_STATUS64: Final = 0x4C05
LOOP_CONFIGURE: Final = 0x4C0A
LOOP_CTL_GET_FREE: Final = 0x4C82

_INFO64: Final = struct.Struct("=5Q4I64s64s32s2Q")
_CONFIG_HEAD: Final = struct.Struct("=2I")
_RESERVED: Final = bytes(64)
_NAME_BYTES: Final = 63
_HOLDS_NONE: Final = (errno.ENXIO, errno.ENOENT)
_ATTEMPTS: Final = 32
"""The number of tries: another program may take the device that was free a moment ago."""
CLEAR_S: Final = 2.0
"""The time that `LoopDevices.detach` waits for programs such as udev that look at the device just then."""
_LOOK_EVERY_S: Final = 0.01
_DELETED: Final = " (deleted)"


@dataclass(frozen=True, slots=True)
class FileSlice:
    """Part of a file, in bytes."""

    file: Path
    offset: int
    size: int

    def overlaps(self, other: FileSlice) -> bool:
        """Whether they have bytes in common, as parts of the same file."""
        return self.offset < other.offset + other.size and other.offset < self.offset + self.size


@dataclass(frozen=True, slots=True)
class LoopDevice:
    """An attached loop device.

    Attributes:
        node: its device node.
        numbers: major and minor.
        name: what it was called when it was attached.
        part: the part of its file; the size is 0 if only the file's end limits it.
        backing: that file, by device and inode: the number may belong to another file's device later.
    """

    node: Path
    numbers: tuple[int, int]
    name: str
    part: FileSlice
    backing: tuple[int, int, int]


class LoopDevices:
    """The loop devices of a machine.

    Args:
        dev: ``/dev``, in which nodes of new devices appear.
        sys: ``/sys``.
    """

    def __init__(self, dev: Path, sys: Path) -> None:
        self._dev = dev
        self._sys = sys

    @property
    def control(self) -> Path:
        return self._dev / "loop-control"

    def check(self) -> None:
        """Raise OSError if this process cannot make loop devices, or cannot list them."""
        os.close(os.open(self.control, os.O_RDWR | os.O_CLOEXEC))
        os.listdir(self._sys / "block")

    def of(self, file: Path) -> list[LoopDevice]:
        """The devices attached to ``file``, by the file's identity: its path may be another one where they were made.

        Those of a file that was removed since are found by its path.

        Raises:
            OSError: a device cannot be looked at, so the answer is not known.
        """
        try:
            status = os.stat(file)
        except FileNotFoundError:
            identity = None
        else:
            identity = (os.major(status.st_dev), os.minor(status.st_dev), status.st_ino)
        found = self._attached(file)
        return [each for each, path in found if each.backing == identity or path == f"{file}{_DELETED}"]

    def attach(self, part: FileSlice, *, name: str) -> LoopDevice:
        """A new device on ``part``, with 512-byte blocks.

        Args:
            name: the kernel keeps its first 63 bytes with the device.

        Raises:
            OSError: the kernel has none to give, or the file cannot be used.
        """
        with _opened(part.file, os.O_RDWR) as file:
            for _ in range(_ATTEMPTS):
                number = self._free_number()
                node = self._dev / f"loop{number}"
                try:
                    with _opened(node, os.O_RDWR) as loop:
                        fcntl.ioctl(loop, LOOP_CONFIGURE, _config(file, part, name))
                        return _look_at(loop, node, part.file)
                except OSError as error:
                    if error.errno != errno.EBUSY:
                        raise OSError(error.errno, os.strerror(error.errno or 0), str(node)) from error
        raise OSError(errno.EBUSY, "other programs take every free loop device", str(self.control))

    def detach(self, device: LoopDevice) -> None:
        """Detach ``device`` from its file; a second call does no harm.

        All that was written to the device is in the file afterwards.

        Raises:
            OSError: a process still has it open. The device goes when that process closes it.
        """
        latest = time.monotonic() + CLEAR_S
        while not self._cleared(device):
            if time.monotonic() > latest:
                raise OSError(errno.EBUSY, "a process has it open", str(device.node))
            time.sleep(_LOOK_EVERY_S)  # no file shows when the last process has closed it

    def _cleared(self, device: LoopDevice) -> bool:
        """Ask ``device`` to let its file go; returns whether it has, or belongs to another file by now."""
        try:
            with _opened(device.node, os.O_RDONLY) as loop:
                if _look_at(loop, device.node, device.part.file) != device:
                    return True
                fcntl.ioctl(loop, LOOP_CLR_FD)
        except OSError as error:
            if error.errno not in _HOLDS_NONE:
                raise OSError(error.errno, os.strerror(error.errno or 0), str(device.node)) from error
        return not (self._sys / "block" / device.node.name / "loop").exists()

    def _attached(self, file: Path) -> Iterator[tuple[LoopDevice, str]]:
        """Each as if of ``file``, and the path of its own file as the kernel tells it."""
        for entry in sorted((self._sys / "block").glob("loop*/loop/backing_file")):
            node = self._dev / entry.parents[1].name
            for _ in range(_ATTEMPTS):
                try:
                    path = entry.read_text(encoding="utf-8", errors="surrogateescape").rstrip("\n")
                    with _opened(node, os.O_RDONLY) as loop:
                        found = _look_at(loop, node, file)
                except OSError as error:
                    if not entry.exists():
                        break  # it has just been detached
                    problem = error  # unless it was detached, and another device has its place by now
                else:
                    yield found, path
                    break
            else:
                raise problem

    def _free_number(self) -> int:
        with _opened(self.control, os.O_RDWR) as control:
            return fcntl.ioctl(control, LOOP_CTL_GET_FREE)


def _look_at(loop: int, node: Path, file: Path) -> LoopDevice:
    """An open loop device, as if of ``file``; raises OSError when it holds none."""
    status = fcntl.ioctl(loop, LOOP_GET_STATUS64, bytes(_INFO64.size))
    numbers = os.fstat(loop).st_rdev
    on, inode, _, offset, size, _, _, _, _, name, *_ = _INFO64.unpack(status)
    called, part = os.fsdecode(name.rstrip(b"\0")), FileSlice(file, offset, size)
    return LoopDevice(node, (os.major(numbers), os.minor(numbers)), called, part, (*_numbers_of(on), inode))


def _config(file: int, part: FileSlice, name: str) -> bytes:
    kept = os.fsencode(name)[:_NAME_BYTES]
    info = _INFO64.pack(0, 0, 0, part.offset, part.size, 0, 0, 0, 0, kept, b"", b"", 0, 0)
    return _CONFIG_HEAD.pack(file, 0) + info + _RESERVED


def _numbers_of(device: int) -> tuple[int, int]:
    """Major and minor, as the kernel packs them into 64 bits."""
    return (device & 0xFFF00) >> 8, (device & 0xFF) | ((device >> 12) & 0xFFF00)


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
