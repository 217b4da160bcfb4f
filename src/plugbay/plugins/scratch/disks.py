"""Disks as files in a directory: attach, detach and wipe them. All of it blocks.

Nothing is remembered but what the kernel and the directory show, so that a crash between any two steps is found:

- a slice that is attached is in use, or was clean when it was attached;
- a slice that is not attached may be dirty, and is looked at before it is attached.

Other threads, and the instance that this one replaces or that replaces it, may use the directory at the same time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from pathlib import Path
from typing import Final

from plugbay.errors import AllocationError, PathUnusable
from plugbay.kernel.files import sync_directory, write_beside
from plugbay.kernel.loop import FileSlice, LoopDevice, LoopDevices
from plugbay.kernel.sparse import can_hold, clear, is_zero

logger = logging.getLogger(__name__)

MARK: Final = "plugbay-scratch"
"""A file that marks the directory as the plugin's own: other files are never wiped."""
_NODES: Final = "nodes"
_OF_FILE_SYSTEMS: Final = "lost+found"
_NODE_MODE: Final = stat.S_IFBLK | 0o666
"""The mode of a device: for any user of its container. On the host the directory is closed to other users."""


class Disks:
    """The disks in ``directory``, which need not exist yet.

    Args:
        owner: resource name; a directory is of one resource for ever.
        size: of a disk, in bytes.
    """

    def __init__(self, directory: Path, *, owner: str, size: int, loops: LoopDevices) -> None:
        self._directory = directory
        self._owner = owner
        self._size = size
        self._loops = loops

    @property
    def directory(self) -> Path:
        """The directory of the disks' files."""
        return self._directory

    def check(self) -> None:
        """Check that there can be such disks, without making one.

        Raises:
            PathUnusable: this process cannot make loop devices, the directory has another owner, or its file system
                has no files as large as a disk.
        """
        try:
            self._loops.check()
        except OSError as error:
            raise PathUnusable(
                str(self._loops.control), f"scratch disks need it, and root: {error.strerror}"
            ) from error
        self._check_directory()
        there = next(each for each in (self._directory, *self._directory.parents) if each.is_dir())
        if not can_hold(there, self._size):
            problem = f"its file system has no files of {self._size} bytes, the size of a scratch disk"
            raise PathUnusable(str(self._directory), problem)

    def file(self, disk: str) -> Path:
        return self._directory / disk

    def node(self, device: str) -> Path:
        """The device node of a disk or partition, the same at all times; there while it is attached."""
        return self._directory / _NODES / device

    def attach(self, device: str, part: FileSlice) -> bool:
        """Make ``part`` usable at the node of ``device``, empty unless it was attached already; returns if it was not.

        Raises:
            AllocationError: something that overlaps is in use.
            PathUnusable, OSError: it cannot be done.
        """
        self._prepare(part)
        loops = self._loops.of(part.file)
        if is_fresh := not any(loop.name == device for loop in loops):
            if taken := [loop.name for loop in loops if loop.part.overlaps(part)]:
                raise AllocationError(f"{taken[0]}, which overlaps, is in use")
            if not is_zero(part.file, part.offset, part.size):
                logger.warning("%s was not empty, though no pod has it; wiping it", device)
                self._wipe(part)
        self.restore(device, part)
        return is_fresh

    def restore(self, device: str, part: FileSlice) -> None:
        """Attach a disk as `attach` does, with its content: its container goes on, perhaps after a reboot."""
        self._prepare(part)
        attached = [loop for loop in self._loops.of(part.file) if loop.name == device]
        self._put_node(self.node(device), attached[0] if attached else self._loops.attach(part, name=device))

    def release(self, device: str, file: Path, part: FileSlice | None) -> None:
        """Detach ``device``, which is not in use any more, and leave nothing in it. A second call does no harm.

        Args:
            file: its disk.
            part: as it would be attached today; None if the device does not exist any more.

        Raises:
            PathUnusable: a process still has it open, or it could not be emptied.
        """
        loops = self._loops.of(file)
        ours = [loop for loop in loops if loop.name == device]
        for loop in ours:
            self._detach(loop)
        used = [loop.part for loop in ours] or ([part] if part else [])  # it may be detached and not wiped yet
        others = [loop.part for loop in loops if loop.name != device]
        for each in used:
            # What overlaps was attached under other settings; the rest is wiped before it is attached.
            if file.exists() and not any(each.overlaps(other) for other in others):
                self._wipe(each)
        self.node(device).unlink(missing_ok=True)

    def _detach(self, loop: LoopDevice) -> None:
        try:
            self._loops.detach(loop)  # before it is wiped: this writes the data that waits in caches
        except OSError as error:
            raise PathUnusable(str(loop.node), f"cannot be detached: {error.strerror}") from error

    def _wipe(self, part: FileSlice) -> None:
        try:
            clear(part.file, part.offset, part.size)
            is_clean = is_zero(part.file, part.offset, part.size)
        except OSError as error:
            raise PathUnusable(str(part.file), f"cannot be wiped: {error.strerror}") from error
        if not is_clean:
            raise PathUnusable(str(part.file), "is not empty after it was wiped")

    def _put_node(self, node: Path, loop: LoopDevice) -> None:
        wanted = os.makedev(*loop.numbers)
        with contextlib.suppress(FileNotFoundError):
            status = node.lstat()
            if stat.S_ISBLK(status.st_mode) and status.st_rdev == wanted:
                return
        fresh = node.with_name(f".{node.name}")
        fresh.unlink(missing_ok=True)
        os.mknod(fresh, _NODE_MODE, wanted)
        fresh.chmod(0o666)  # whatever the umask
        fresh.replace(node)

    def _prepare(self, part: FileSlice) -> None:
        """Make the directory and the disk's file, unless they are there."""
        self._check_directory()
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._directory.chmod(0o700)
            self._mark()
            self.node("").mkdir(exist_ok=True)
            self._have_file(part.file)
        except OSError as error:
            raise PathUnusable(str(self._directory), f"cannot hold scratch disks: {error.strerror}") from error

    def _have_file(self, file: Path) -> None:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size != self._size and not self._loops.of(file):
                if size:  # another size, from an earlier configuration; a new file may be in use by now
                    os.ftruncate(descriptor, 0)
                os.ftruncate(descriptor, self._size)
        finally:
            os.close(descriptor)

    def _check_directory(self) -> None:
        try:
            entries = self._entries()  # before the mark is looked for, which is there first
            owner = self._marked()
        except (OSError, UnicodeDecodeError) as error:
            problem = error.strerror if isinstance(error, OSError) else f"{MARK} in it is not UTF-8 text"
            raise PathUnusable(str(self._directory), f"cannot hold scratch disks: {problem}") from error
        if owner is None and entries:
            raise PathUnusable(
                str(self._directory), f"holds {entries[0]!r}; scratch disks need a directory of their own"
            )
        if owner == "":
            raise PathUnusable(
                str(self._directory),
                f"cannot hold scratch disks: {MARK} in it is empty, as an earlier version may have left it in a crash; "
                f"if its disks are those of {self._owner}, write that name into it",
            )
        if owner is not None and owner != self._owner:
            raise PathUnusable(str(self._directory), f"holds the scratch disks of {owner}")

    def _entries(self) -> list[str]:
        """The names in the directory, but for those that any file system has, and for a mark that is being written."""
        names = (each.name for each in self._directory.iterdir()) if self._directory.exists() else ()
        return sorted(name for name in names if name != _OF_FILE_SYSTEMS and not name.startswith(f".{MARK}."))

    def _marked(self) -> str | None:
        """The resource whose disks the directory holds; None before there are any."""
        try:
            return (self._directory / MARK).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return None

    def _mark(self) -> None:
        """Mark the directory before anything else is in it. The mark is never there without its content."""
        if self._marked() is not None:
            return
        mark = self._directory / MARK
        temporary = write_beside(mark, f"{self._owner}\n".encode())
        try:
            with contextlib.suppress(FileExistsError):  # the directory belongs to the first that marks it
                os.link(temporary, mark)
        finally:
            temporary.unlink()
        sync_directory(self._directory)
        self._check_directory()
