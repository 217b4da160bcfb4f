"""Which file system a path is on, and whether that tells of changes.

Source: Linux ``proc_pid_mountinfo(5)``; ``inotify(7)``, "Limitations and caveats".
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_SILENT: Final = frozenset(
    {
        *("sysfs", "proc", "debugfs", "tracefs", "securityfs", "configfs", "efivarfs", "cgroup", "cgroup2"),
        *("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "afs", "lustre", "glusterfs", "vboxsf", "virtiofs"),
    }
)
"""What is there is made up when it is read, or is changed by other machines too."""


def silent_filesystem(path: Path) -> str:
    """The type of the file system that ``path`` is on, or is to be on, if it does not tell of all changes; else empty.

    Blocks as long as the file system takes to answer.
    """
    kind = _type_of(path.absolute())
    return kind if kind in _SILENT or kind.startswith("fuse") else ""


def _type_of(path: Path) -> str:
    for each in (path, *path.parents):
        try:
            device = os.stat(each).st_dev
        except OSError:
            continue
        return _types().get(f"{os.major(device)}:{os.minor(device)}", "")
    return ""


def _types() -> dict[str, str]:
    """The type of each mounted file system, by its device."""
    types: dict[str, str] = {}
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        for line in mounts:
            fields = line.split()
            types[fields[2]] = fields[fields.index("-", 6) + 1]
    return types
