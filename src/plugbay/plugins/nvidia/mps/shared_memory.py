"""The memory that MPS daemons and their clients share. Blocks.

Source: k8s-device-plugin 0.20 ``cmd/mps-control-daemon/mount/mount.go``; spec 8.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from plugbay.errors import PathUnusable
from plugbay.kernel.tmpfs import mount_tmpfs, unmount_all

_FALLBACK_BYTES: Final = 64 << 20
_MODE: Final = 0o1777


def mount_shared_memory(directory: Path, *, proc_root: Path = Path("/proc")) -> None:
    """Mount an empty file system in memory on ``directory``, of half the machine's memory, in place of one before.

    Raises:
        PathUnusable: we may not.
    """
    try:
        with contextlib.suppress(FileNotFoundError):
            unmount_all(directory)
        mount_tmpfs(directory, mode=_MODE, size_bytes=_half_of_memory(proc_root))
    except OSError as error:
        raise PathUnusable(str(directory), f"cannot be mounted: {error.strerror}") from error


def _half_of_memory(proc_root: Path) -> int:
    """Bytes; 64 MiB if the machine does not say."""
    try:
        fields = dict(line.split(":", 1) for line in (proc_root / "meminfo").read_text().splitlines())
        return int(fields["MemTotal"].split()[0]) * 1024 // 2
    except (OSError, ValueError, KeyError, IndexError):
        return _FALLBACK_BYTES
