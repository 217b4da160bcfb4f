"""File systems in memory, mounted for as long as somebody needs them.

Source: Linux ``mount(2)``, ``umount(2)``, ``tmpfs(5)``.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from plugbay.kernel.syscalls import system_call

_MS_NOSUID_NODEV_NOEXEC: Final = 2 | 4 | 8
_MNT_DETACH: Final = 2
_UMOUNT_NOFOLLOW: Final = 8


def mount_tmpfs(directory: Path, *, mode: int, size_bytes: int) -> None:
    """Mount an empty file system on ``directory``, which is made if need be; nothing on it is executed.

    Raises:
        OSError: we may not, or the directory cannot be made.
    """
    directory.mkdir(parents=True, exist_ok=True)
    options = f"mode={mode:o},size={size_bytes}".encode()
    system_call("mount", b"tmpfs", os.fsencode(directory), b"tmpfs", _MS_NOSUID_NODEV_NOEXEC, options)


def unmount_all(directory: Path) -> None:
    """Take away what is mounted on ``directory``, once or more often, with the directory itself; gone is no error.

    Who has files of it open keeps them.

    Raises:
        OSError: we may not, or there are files in the directory that were there before.
    """
    try:
        while True:
            system_call("umount2", os.fsencode(directory), _MNT_DETACH | _UMOUNT_NOFOLLOW)
    except OSError as error:
        # Without rights nobody is told whether something is mounted there, before Linux 5.9 not even what is missing.
        is_refused = error.errno == errno.EPERM and not os.path.ismount(directory)
        if not is_refused and error.errno not in (errno.EINVAL, errno.ENOENT):  # nothing is mounted there any more
            raise
    try:
        directory.rmdir()
    except FileNotFoundError:
        return
