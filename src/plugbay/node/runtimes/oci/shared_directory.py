"""The directory of one pod with what its containers share besides the network, as under a kubelet's pause container.

``ipc`` and ``uts`` are namespaces, ``shm`` a file system in memory, ``hosts`` and ``hostname`` files for ``/etc``. No
process keeps them: they last until they are removed, or the machine restarts.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from plugbay.errors import NamespaceUnusable
from plugbay.kernel.namespaces import NamespaceKind, is_namespace, make_namespace, remove_namespace
from plugbay.kernel.tmpfs import mount_tmpfs, unmount_all
from plugbay.model.edits import Mount
from plugbay.node.runtimes.cri.config import hosts_text

IPC: Final = "ipc"
UTS: Final = "uts"
SHM: Final = "shm"
SHM_BYTES: Final = 64 * 2**20
"""What containerd gives a pod."""

_KINDS: Final = {IPC: NamespaceKind.IPC, UTS: NamespaceKind.UTS}
_HOSTS: Final = "hosts"
_HOSTNAME: Final = "hostname"


def make_shared(directory: Path, *, host_kinds: Collection[str], hostname: str, proc_root: Path) -> None:
    """Make all of it but what is the host's. May wait for the kernel.

    Raises:
        NamespaceUnusable, OSError: it cannot be made; `remove_shared` takes away what there is.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in _own(host_kinds):
        furnish = partial(socket.sethostname, hostname) if name == UTS else int
        make_namespace(_KINDS[name], directory / name, proc_root=proc_root, furnish=furnish)
    if IPC not in host_kinds:
        mount_tmpfs(directory / SHM, mode=0o1777, size_bytes=SHM_BYTES)
    if UTS not in host_kinds:
        (directory / _HOSTNAME).write_text(f"{hostname}\n")


def write_hosts(directory: Path, *, ips: Iterable[str], hostname: str) -> None:
    """For a pod with addresses of its own.

    Raises:
        OSError: it cannot be written.
    """
    (directory / _HOSTS).write_text(hosts_text(ips, hostname))


def remove_shared(directory: Path) -> None:
    """Also what was made by half, or is gone.

    Raises:
        NamespaceUnusable, OSError: something stays.
    """
    if not directory.exists():
        return
    for name, kind in _KINDS.items():
        remove_namespace(kind, directory / name)
    unmount_all(directory / SHM)
    shutil.rmtree(directory)


def is_whole(directory: Path, *, host_kinds: Collection[str]) -> bool:
    """Whether everything is there that was made."""
    try:
        return all(is_namespace(_KINDS[name], directory / name) for name in _own(host_kinds)) and (
            IPC in host_kinds or os.path.ismount(directory / SHM)
        )
    except (OSError, NamespaceUnusable):
        return False


def shared_namespaces(directory: Path, *, host_kinds: Collection[str]) -> dict[str, str]:
    """Where those are that are the pod's own."""
    return {name: str(directory / name) for name in _own(host_kinds)}


def shared_files(directory: Path) -> tuple[Mount, ...]:
    """What stands in ``/etc`` of the pod's containers. Looks at the disk."""
    names = (_HOSTS, _HOSTNAME)
    return tuple(Mount(f"/etc/{name}", str(directory / name)) for name in names if (directory / name).exists())


def _own(host_kinds: Collection[str]) -> Iterator[str]:
    return (name for name in _KINDS if name not in host_kinds)
