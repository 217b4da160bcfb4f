"""File systems in memory, mounted for as long as they are needed.

Source: Linux ``mount(2)``, ``umount(2)``, ``tmpfs(5)``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from plugbay.kernel.mounts import unmount
from plugbay.kernel.syscalls import system_call

_MS_NOSUID_NODEV: Final = 2 | 4
_MS_NOEXEC: Final = 8


def mount_tmpfs(
    directory: Path, *, mode: int, size_bytes: int, group: int | None = None, holds_programs: bool = False
) -> None:
    """Mount an empty file system on ``directory``, which is made if need be.

    Args:
        group: the ID of the group that it belongs to; None is ours.
        holds_programs: whether files on it can be executed.

    Raises:
        OSError: we may not, or the directory cannot be made.
    """
    directory.mkdir(parents=True, exist_ok=True)
    owner = "" if group is None else f",gid={group}"
    options = f"mode={mode:o},size={size_bytes}{owner}".encode()
    flags = _MS_NOSUID_NODEV if holds_programs else _MS_NOSUID_NODEV | _MS_NOEXEC
    system_call("mount", b"tmpfs", os.fsencode(directory), b"tmpfs", flags, options)


def unmount_all(directory: Path) -> None:
    """Unmount all that is mounted on ``directory`` and remove it; it is not an error if the directory is gone.

    Open files stay usable.

    Raises:
        OSError: we may not, or there are files in the directory that were there before.
    """
    unmount(directory)
    try:
        directory.rmdir()
    except FileNotFoundError:
        return
