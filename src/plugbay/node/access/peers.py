"""Looks at the process at the other end of a unix socket: is it in a container of ours, or in our mount namespace?

A client of the control socket in a container could own the machine. Containers do not see the socket; the check holds
where a pod mounts it all the same.

Source: Linux ``unix(7)`` (``SO_PEERCRED``), ``cgroups(7)``, ``user_namespaces(7)``.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

_PROBE_TIMEOUT_S: Final = 1.0
_CREDENTIALS: Final = struct.Struct("iII")

PeerCheck = Callable[[socket.socket], str]
"""Says why the peer of a connection is refused; empty if it is not."""


def containers_are_refused(*, cgroup_prefixes: tuple[str, ...], proc_root: Path) -> PeerCheck:
    """The check for a node whose pods have cgroups with these names, or, if it has no rights for that, user namespaces.

    A peer outside of our PID namespace has no number here; it cannot be in a container that we made.

    Args:
        cgroup_prefixes: the beginnings of the names of pods' cgroups.
    """
    own = None if os.geteuid() == 0 else _user_namespace(proc_root / "self")

    def check(connection: socket.socket) -> str:
        size = _CREDENTIALS.size
        pid, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        process = proc_root / str(pid)
        try:
            if not pid:
                is_inside = False
            elif own is None:
                is_inside = _is_in(process, cgroup_prefixes)
            else:  # the root of its containers is the user of the node, as for every process outside of them
                is_inside = uid == os.geteuid() and _user_namespace(process) != own
        except OSError as error:
            return f"process {pid} cannot be looked at: {error.strerror}"
        return f"process {pid} runs in a container of this node" if is_inside else ""

    return check


def shares_mounts(path: Path, *, proc_root: Path) -> bool:
    """Whether the server at the unix socket ``path`` sees what this process mounts, as far as that can be told."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(_PROBE_TIMEOUT_S)
            probe.connect(os.fspath(path))
            pid, _, _ = _CREDENTIALS.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        own = os.readlink(proc_root / "self/ns/mnt")
        return bool(pid) and os.readlink(proc_root / str(pid) / "ns/mnt") == own
    except OSError:
        return False


def _is_in(process: Path, prefixes: tuple[str, ...]) -> bool:
    lines = (process / "cgroup").read_text().splitlines()
    words = (word for line in lines for word in line.split(":", 2)[2].split("/"))
    return any(word.startswith(prefixes) for word in words)


def _user_namespace(process: Path) -> str:
    return os.readlink(process / "ns/user")
