"""The directory of one pod with what its containers share besides the network, as under a kubelet's pause container.

``ipc`` and ``uts`` are namespaces, ``shm`` a file system in memory, the rest files for ``/etc``. No process keeps them:
they last until they are removed, or the machine restarts.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from plugbay.errors import NamespaceUnusable
from plugbay.kernel.namespaces import NamespaceKind, is_namespace, make_namespace, remove_namespace
from plugbay.kernel.tmpfs import mount_tmpfs, unmount_all

IPC: Final = "ipc"
UTS: Final = "uts"
SHM: Final = "shm"
SHM_BYTES: Final = 64 * 2**20
"""The size that containerd gives a pod."""
KINDS: Final[Mapping[str, NamespaceKind]] = {IPC: NamespaceKind.IPC, UTS: NamespaceKind.UTS}


def make_shared(directory: Path, *, kinds: Collection[str], hostname: str, proc_root: Path) -> None:
    """Make the directory, and namespaces of ``kinds`` in it. May wait for the kernel.

    Raises:
        NamespaceUnusable, OSError: it cannot be made; `remove_shared` takes away what there is.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in kinds:
        furnish = partial(socket.sethostname, hostname) if name == UTS else int
        make_namespace(KINDS[name], directory / name, proc_root=proc_root, furnish=furnish)
    if IPC in kinds:
        mount_tmpfs(directory / SHM, mode=0o1777, size_bytes=SHM_BYTES)


def write_files(directory: Path, texts: Mapping[str, str]) -> None:
    """Write files that containers may read; each is there whole or not at all, also if the node is killed.

    Raises:
        OSError: one cannot be written.
    """
    for name, text in texts.items():
        making = directory / f".{name}"
        making.write_text(text)
        making.chmod(0o644)
        making.replace(directory / name)


def remove_shared(directory: Path) -> None:
    """Remove a pod's shared directory, also one that was made only in part; one that is gone is not an error.

    Raises:
        NamespaceUnusable, OSError: something stays.
    """
    if not directory.exists():
        return
    for name, kind in KINDS.items():
        remove_namespace(kind, directory / name)
    unmount_all(directory / SHM)
    shutil.rmtree(directory)


def is_whole(directory: Path, *, kinds: Collection[str], files: Collection[str]) -> bool:
    """Whether everything is there that was made."""
    try:
        return (
            all((directory / name).is_file() for name in files)
            and all(is_namespace(KINDS[name], directory / name) for name in kinds)
            and (IPC not in kinds or os.path.ismount(directory / SHM))
        )
    except (OSError, NamespaceUnusable):
        return False
