"""Which file system a path is on, and whether that tells of changes.

Source: Linux ``inotify(7)``, "Limitations and caveats".
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from plugbay.kernel.mounts import file_system_types

_PROC: Final = Path("/proc")
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
        return file_system_types(proc_root=_PROC).get(f"{os.major(device)}:{os.minor(device)}", "")
    return ""
