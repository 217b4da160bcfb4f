"""The places on a node at which an onlooker finds what there is to read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from plugbay.kubelet.paths import KubeletPaths
from plugbay.ops.listening import Address
from plugbay.values import dataclass

HOST: Final = Path("/")
_OWN_SOCKET: Final = "plugbay.sock"
_OWN_LOGS: Final = Path("logs", "pods")
_STOCK_LOGS: Final = Path("/var/log/pods")
_MOST_LINKS: Final = 40
"""As many symbolic links as Linux follows in one path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlaces:
    """The files, directories and sockets of a kubelet and its plugins. Nothing of it need exist.

    Attributes:
        host: the node's ``/``, as it is seen here.
        kubelet: what lies below the kubelet's root: checkpoint, sockets.
        pods: the kubelet's directories of pods, named by UID.
        pod_logs: directories ``NAMESPACE_NAME_UID``, one for each pod with logs.
        cpu_state: the CPU manager's file.
        control_socket: the socket of `plugbay node up`, if the kubelet is that one.
        proc: the proc file system.
        status_pages: where our plugins answer ``/status`` (``plugbay serve --metrics``).
    """

    host: Path
    kubelet: KubeletPaths
    pods: Path
    pod_logs: Path
    cpu_state: Path
    control_socket: Path
    proc: Path
    status_pages: tuple[Address, ...] = ()


def places_of(root: Path, *, host: Path = HOST, is_own: bool, status_pages: tuple[Address, ...] = ()) -> NodePlaces:
    """The usual places.

    Args:
        root: the kubelet's root, as it is seen here.
        host: the node's ``/``, as it is seen here.
        is_own: whether the kubelet is `plugbay node up`, whose logs lie below its root.
    """
    return NodePlaces(
        host=host,
        kubelet=KubeletPaths(root),
        pods=root / "pods",
        pod_logs=root / _OWN_LOGS if is_own else seen_below(host, _STOCK_LOGS),
        cpu_state=root / "cpu_manager_state",
        control_socket=root / _OWN_SOCKET,
        proc=host / "proc",
        status_pages=status_pages,
    )


def seen_below(host: Path, path: Path | str) -> Path:
    """A path of a machine whose ``/`` is at ``host``, as this process reaches it; links are followed as there."""
    if host == HOST:
        return Path(path)
    todo = [part for part in Path(path).parts if part != "/"][::-1]
    there, links = host, 0
    while todo:
        part = todo.pop()
        if part == "..":
            there = there if there == host else there.parent
            continue
        try:
            target = os.readlink(there / part)
        except OSError:
            there /= part
            continue
        links += 1
        if links > _MOST_LINKS:
            return there / part
        if target.startswith("/"):
            there = host
        todo += [each for each in Path(target).parts if each != "/"][::-1]
    return there


def is_own_root(root: Path) -> bool:
    """Whether `plugbay node up` lives, or has lived, at ``root``. Looks at the disk."""
    # Not `Path.exists`, which raises where rights are missing: the readers tell of that.
    return any(os.path.exists(root / name) for name in (_OWN_SOCKET, "plugbay.lock"))
