"""Read the mount table; hold directories while other processes rename their contents, and bind-mount what is held.

Source: Linux ``open(2)`` (``O_PATH``), ``mount(2)``, ``umount(2)``, ``proc_pid_mountinfo(5)``; kubelet 1.36
``pkg/volume/util/subpath``.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from plugbay.kernel.syscalls import system_call

_MS_BIND: Final = 4096
_MNT_DETACH: Final = 2
_UMOUNT_NOFOLLOW: Final = 8
_HELD: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_TRIES: Final = 100
"""An entry may vanish so often between two calls before we give up."""
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")
"""The kernel writes space, tab, newline and backslash so, and every other byte as it is."""


def mounted(*, proc_root: Path) -> list[tuple[Path, str]]:
    """The mount points in our mount namespace, each with the type of its file system; one may occur more than once.

    Raises:
        OSError: ``proc_root`` is not a proc file system.
    """
    return [(Path(_unescaped(before[4])), _unescaped(after[0])) for before, after in _lines(proc_root)]


def file_system_types(*, proc_root: Path) -> dict[str, str]:
    """The type of each mounted file system, by the numbers of its device: ``8:1``.

    Raises:
        OSError: ``proc_root`` is not a proc file system.
    """
    return {before[2].decode(): _unescaped(after[0]) for before, after in _lines(proc_root)}


def open_beneath(root: int, names: Sequence[str]) -> int:
    """A descriptor (``O_PATH``) of the file that ``names`` lead to, entry by entry, from the directory ``root``.

    No symbolic link is followed, whatever is renamed meanwhile. What is missing becomes a directory with the mode of
    ``root``, whatever the umask.

    Raises:
        NotADirectoryError: an entry on the way is something else, a symbolic link for instance.
        OSError: an entry cannot be opened or made.
    """
    mode = stat.S_IMODE(os.fstat(root).st_mode)
    held = os.open(".", _HELD | os.O_DIRECTORY, dir_fd=root)
    try:
        for name in names:
            if name in ("", ".", "..") or "/" in name:
                raise ValueError(f"{name!r} is not the name of an entry")
            below = _open_or_make(held, name, mode)
            os.close(held)
            held = below
            if stat.S_ISLNK(os.fstat(held).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, "it is a symbolic link", name)
    except BaseException:
        os.close(held)
        raise
    return held


def bind(descriptor: int, target: Path) -> None:
    """Show at ``target`` what ``descriptor`` holds, a directory or a file; mounts further down are left out.

    Raises:
        OSError: this process may not, or ``target`` is not of the same sort.
    """
    system_call("mount", b"/proc/self/fd/%d" % descriptor, os.fsencode(target), b"none", _MS_BIND, None)


def unmount(target: Path) -> None:
    """Unmount all that is mounted on ``target``; it is not an error if nothing is. Links are not followed.

    Open files stay usable.

    Raises:
        OSError: we may not.
    """
    try:
        while True:
            system_call("umount2", os.fsencode(target), _MNT_DETACH | _UMOUNT_NOFOLLOW)
    except OSError as error:
        # Without rights the kernel hides whether something is mounted; before Linux 5.9 also whether the target exists.
        is_refused = error.errno == errno.EPERM and not os.path.ismount(target)
        if not is_refused and error.errno not in (errno.EINVAL, errno.ENOENT):
            raise OSError(error.errno, error.strerror, str(target)) from error


def _open_or_make(directory: int, name: str, mode: int) -> int:
    for _ in range(_TRIES):
        try:
            return os.open(name, _HELD, dir_fd=directory)
        except FileNotFoundError:
            pass
        try:
            os.mkdir(name, 0o700, dir_fd=directory)
            made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        except (FileExistsError, FileNotFoundError):
            continue
        try:
            os.fchmod(made, mode)
        finally:
            os.close(made)
    raise OSError(errno.EAGAIN, "it changes all the time", name)


def _lines(proc_root: Path) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """The fields of each mount before and after the separator. Names may hold any byte."""
    for line in (proc_root / "self/mountinfo").read_bytes().split(b"\n"):
        before, separator, after = line.partition(b" - ")
        if separator:
            yield before.split(b" "), after.split(b" ")


def _unescaped(field: bytes) -> str:
    return os.fsdecode(_ESCAPED.sub(lambda match: bytes([int(match[1], 8)]), field))
