"""The file in which a container says how it ended, and how much of that counts.

Source: kubelet 1.36 ``kuberuntime_container.go`` (``getTerminationMessage``).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

MAX_MESSAGE_BYTES: Final = 4096
MAX_LOG_BYTES: Final = 2048
MAX_LOG_LINES: Final = 80
"""The most bytes and lines of a log's end that stand in for the message."""


def message_in(path: Path, limit: int = MAX_MESSAGE_BYTES) -> str:
    """The end of a file, or why it cannot be read; empty when there is none. Waits for the disk.

    A pod that mounts a volume there can put anything in its place: links are not followed, nor pipes waited for.
    """
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
            file.seek(max(0, file.seek(0, os.SEEK_END) - limit))
            return file.read(limit).decode(errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"Error on reading termination log {path}: {(error.strerror or '').lower()}"
