"""Refuses clients of the control socket that run in a container of the node: from there they could own the machine.

Containers do not see the socket. This holds where a pod mounts it all the same.

Source: Linux ``unix(7)`` (``SO_PEERCRED``), ``cgroups(7)``, ``user_namespaces(7)``.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

_CREDENTIALS: Final = struct.Struct("iII")

PeerCheck = Callable[[socket.socket], str]
"""Says why the peer of a connection is refused; empty if it is not."""


def containers_are_refused(*, cgroup_prefixes: tuple[str, ...], proc_root: Path) -> PeerCheck:
    """The check for a node whose pods have cgroups with these names, or, if it has no rights for that, user namespaces.

    A peer outside of our PID namespace has no number here; it cannot be in a container that we made.

    Args:
        cgroup_prefixes: what the names of pods' cgroups begin with.
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
            else:  # the root of its containers is the user of the node, as for everybody outside of them
                is_inside = uid == os.geteuid() and _user_namespace(process) != own
        except OSError as error:
            return f"process {pid} cannot be looked at: {error.strerror}"
        return f"process {pid} runs in a container of this node" if is_inside else ""

    return check


def _is_in(process: Path, prefixes: tuple[str, ...]) -> bool:
    lines = (process / "cgroup").read_text().splitlines()
    words = (word for line in lines for word in line.split(":", 2)[2].split("/"))
    return any(word.startswith(prefixes) for word in words)


def _user_namespace(process: Path) -> str:
    return os.readlink(process / "ns/user")
