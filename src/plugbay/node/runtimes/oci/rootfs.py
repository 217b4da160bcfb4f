"""The root file system of a container: what a directory holds, ``/`` for one, read-only."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

OciMount = dict[str, Any]

_OWN: Final = frozenset({"proc", "sys", "dev", "run", "tmp", "lost+found"})
"""What every container has of its own, or should not see."""


@dataclass(frozen=True, slots=True)
class RootFs:
    """What the entries right below ``/`` come to.

    Attributes:
        mounts: of directories and files. File systems mounted further down are left out, so that all is read-only.
        links: symbolic links such as ``bin``, which mounts cannot give, by their name.
    """

    mounts: tuple[OciMount, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)


def read_root(root: Path) -> RootFs:
    """The root file system of ``root``, composed of mounts in the container's namespace: the host gets none of them.

    Raises:
        OSError: ``root`` cannot be listed.
    """
    mounts: list[OciMount] = []
    links: dict[str, str] = {}
    for name in sorted(os.listdir(root)):
        path = root / name
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            links[name] = os.readlink(path)
        elif name not in _OWN and (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            options = ["bind", "ro", "nodev", "rprivate"]
            mounts.append({"destination": f"/{name}", "type": "bind", "source": str(path), "options": options})
    return RootFs(tuple(mounts), links)
