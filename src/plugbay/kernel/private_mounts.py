"""A mount namespace for this process alone, which shows a directory at another place. It ends with the process.

Source: Linux ``mount_namespaces(7)``, ``user_namespaces(7)``, ``mount(2)``.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from plugbay.kernel.syscalls import system_call

_CLONE_NEWNS: Final = 0x00020000
_CLONE_NEWUSER: Final = 0x10000000
_MS_NOSUID_NODEV: Final = 2 | 4
_MS_BIND: Final = 4096
_MS_REC: Final = 0x4000
_MS_SLAVE: Final = 1 << 19


def enter_private_mounts(*, proc_root: Path) -> None:
    """Enter a mount namespace of our own: later mounts of other processes show here too, but ours do not show there.

    Without the right to do that it takes a user namespace, in which we stay the user and group that we are. For a
    process with one thread.

    Raises:
        OSError: the kernel does not allow it.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        system_call("unshare", _CLONE_NEWNS)
    except PermissionError:
        system_call("unshare", _CLONE_NEWNS | _CLONE_NEWUSER)
        own = proc_root / "self"
        (own / "setgroups").write_text("deny")  # before groups can be mapped
        (own / "uid_map").write_text(f"{user} {user} 1")
        (own / "gid_map").write_text(f"{group} {group} 1")
    system_call("mount", b"none", b"/", None, _MS_REC | _MS_SLAVE, None)


def show_at(directory: Path, place: Path, *, proc_root: Path) -> None:
    """Show ``directory`` at ``place`` too in our mount namespace; what lies there is covered.

    A ``place`` that does not exist is not made on the disk: the directory above it becomes one in memory, in which all
    that it holds is found again.

    Raises:
        OSError: it cannot be mounted.
    """
    source = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # it may lie in what is covered
    try:
        if not place.is_dir():
            above = next(each for each in place.parents if each.is_dir())
            if above == Path("/"):
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), str(place.parent))
            _mirror(above, proc_root=proc_root)
            place.mkdir(parents=True)
        _bind(proc_root / f"self/fd/{source}", place)
    finally:
        os.close(source)


def _mirror(directory: Path, *, proc_root: Path) -> None:
    """Cover ``directory`` by one in memory with the same entries."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        system_call("mount", b"tmpfs", os.fsencode(directory), b"tmpfs", _MS_NOSUID_NODEV, b"mode=755")
        with os.scandir(descriptor) as entries:
            for entry in entries:
                copy = directory / entry.name
                if entry.is_symlink():
                    copy.symlink_to(os.readlink(entry.name, dir_fd=descriptor))
                    continue
                if entry.is_dir(follow_symlinks=False):
                    copy.mkdir()
                else:
                    copy.touch()
                _bind(proc_root / f"self/fd/{descriptor}" / entry.name, copy)
    finally:
        os.close(descriptor)


def _bind(source: Path, place: Path) -> None:
    system_call("mount", os.fsencode(source), os.fsencode(place), b"none", _MS_BIND | _MS_REC, None)
