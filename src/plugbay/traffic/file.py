"""The file of a recording: each line is there as soon as it is written, and it never grows beyond its greatest size."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Self

from plugbay.errors import PathUnusable
from plugbay.traffic.file_format import FULL, RecordingHeader, RecordLines, header_line
from plugbay.traffic.pod_events import PodEvent
from plugbay.traffic.records import TrafficRecord
from plugbay.values import dataclass

MOST_BYTES: Final = 64 * 2**20
"""The greatest size, unless told otherwise: days of a node with many pods."""


@dataclass(frozen=True, slots=True)
class RecordingSettings:
    """A recording from the start of the node on.

    Attributes:
        path: a file that is not there yet.
        most_bytes: its greatest size.
        is_masked: whether values that look like secrets are left out.
    """

    path: Path
    most_bytes: int = MOST_BYTES
    is_masked: bool = True


class RecordingFile:
    """A new file that only its owner reads. What is killed while it writes leaves at most its last line torn.

    Args:
        header: None for a file whose first line comes as others do, by `keep`.
        most_bytes: its greatest size; a record that does not fit ends the recording.

    Attributes:
        count: the number of records in it.
        is_full: whether it takes no more.

    Raises:
        PathUnusable: there is such a file already, or it cannot be made.
    """

    def __init__(self, path: Path, header: RecordingHeader | None, *, most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self.count = 0
        self.is_full = False
        self._left = most_bytes - len(FULL)
        self._lines = RecordLines()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._file = open(os.open(path, flags, 0o600), "wb", buffering=0)
        except FileExistsError:
            raise PathUnusable(str(path), "this file is here already; give another one") from None
        except OSError as error:
            raise PathUnusable(str(path), f"cannot be made: {error.strerror}") from error
        if header is not None:
            self._write(header_line(header))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self, event: TrafficRecord | PodEvent) -> None:
        """Write a record; nothing happens once the file is full.

        Raises:
            OSError: the disk is full, for one.
        """
        if not self.is_full:
            self.keep(self._lines.line(event))

    def keep(self, line: str) -> None:
        """Write a line that is made already; else as `take`."""
        if self.is_full:
            return
        if len(line.encode(errors="backslashreplace")) > self._left:
            self.is_full = True
            self._write(FULL)
            return
        self._write(line)
        self.count += 1

    def close(self) -> None:
        self._file.close()

    def _write(self, line: str) -> None:
        content = memoryview(line.encode(errors="backslashreplace"))
        self._left -= len(content)
        while content:
            content = content[self._file.write(content) :]
