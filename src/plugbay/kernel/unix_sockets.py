"""The kernel's table of unix sockets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_ACCEPTS_CONNECTIONS: Final = 1 << 16


def is_listening(path: Path, *, proc: Path) -> bool:
    """Whether a socket that was bound to ``path`` listens, be its file there or not.

    Args:
        proc: this process's directory in the proc file system.

    Source: Linux ``net/unix/af_unix.c``, ``unix_seq_show``.
    """
    wanted = os.fsencode(path)
    for line in (proc / "net/unix").read_bytes().splitlines()[1:]:
        # number, references, protocol, flags, type, state, inode, path
        fields = line.split(maxsplit=7)
        if len(fields) == 8 and fields[7] == wanted and int(fields[3], 16) & _ACCEPTS_CONNECTIONS:
            return True
    return False
