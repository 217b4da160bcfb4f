"""Find the file system that a path is on, and whether inotify sees all changes there.

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
"""Their files are made up when they are read, or other machines change them too."""


def silent_filesystem(path: Path) -> str:
    """The file system type of ``path``, which need not exist, if inotify does not see all changes there; else empty.

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
