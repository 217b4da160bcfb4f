"""Writes a container's output from a pipe into log files of bounded size; part of the wrapper's program.

``log`` is written; full, it becomes ``log.1``, then ``log.2`` and so on, and the oldest are removed. A number is given
once, so that readers know what comes after what. Files end with a line, unless a line is longer than a file.
The container never waits for room on the disk: output that cannot be written is dropped, and a line in the log says so
later.
"""

from __future__ import annotations

import os

_CHUNK_BYTES = 64 * 1024
_TURN_CHUNKS = 16
_LAST_CHUNKS = 1024
"""The most chunks read after a container's end. Its pipe holds less, unless another process goes on writing."""
_LOG = "log"
_NEXT = "log.next"


class Output:
    """
    Attributes:
        pipe: where the container's output is read.
        given: what the container writes to; to be closed once it has it.
    """

    def __init__(self, here: int, *, max_bytes: int, max_files: int) -> None:
        self._here = here
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._number = 0
        self._log = os.open(_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640, dir_fd=here)
        self._size = 0
        self._is_at_start = True
        self._lost = 0
        self._problem = OSError()
        self.pipe, self.given = os.pipe()
        os.set_blocking(self.pipe, False)

    def pump(self, chunks: int = _TURN_CHUNKS) -> bool:
        """Write what is there to be read, but let others have a turn; False when nothing can come any more."""
        for _ in range(chunks):
            try:
                chunk = os.read(self.pipe, _CHUNK_BYTES)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            self._keep(chunk)
        return True

    def finish(self) -> None:
        """Write what is left of a container that has ended."""
        self.pump(_LAST_CHUNKS)
        self._tell_loss()

    def _keep(self, chunk: bytes) -> None:
        while len(chunk) > (room := self._max_bytes - self._size):
            room = max(room, 0)
            cut = chunk.rfind(b"\n", 0, room) + 1
            if not cut and not (self._is_at_start and self._size):
                cut = room  # of a line that is longer than a file
            is_written = self._write(chunk[:cut])
            chunk = chunk[cut:]
            try:
                if not is_written:  # what is there is not given up for what cannot be written
                    raise self._problem
                self._rotate()
            except OSError as error:
                self._lose(len(chunk), error)
                return
        self._write(chunk)

    def _write(self, chunk: bytes) -> bool:
        if chunk and self._lost:
            self._tell_loss()
        return self._put(chunk)

    def _put(self, chunk: bytes) -> bool:
        """False if not all of it could be written."""
        while chunk:
            try:
                written = os.write(self._log, chunk)
            except OSError as error:
                self._lose(len(chunk), error)
                return False
            self._size += written
            self._is_at_start = chunk[written - 1] == 10
            chunk = chunk[written:]
        return True

    def _lose(self, size: int, error: OSError) -> None:
        self._lost += size
        self._problem = error

    def _tell_loss(self) -> None:
        """May lose itself, and is told then with what is lost next."""
        if self._lost:
            start = "" if self._is_at_start else "\n"
            line = f"{start}plugbay: {self._lost} bytes of output are missing here: {self._problem.strerror}\n".encode()
            lost, self._lost = self._lost, 0
            self._put(line)
            if self._lost:
                self._lost = lost

    def _rotate(self) -> None:
        log = os.open(_NEXT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o640, dir_fd=self._here)
        older = f"{_LOG}.{self._number + 1}"
        try:
            try:
                os.link(_LOG, older, src_dir_fd=self._here, dst_dir_fd=self._here)
            except FileExistsError:
                pass  # by a try before this one
            except OSError:
                os.rename(_LOG, older, src_dir_fd=self._here, dst_dir_fd=self._here)  # a file system without links
            os.rename(_NEXT, _LOG, src_dir_fd=self._here, dst_dir_fd=self._here)
        except OSError:
            os.close(log)
            raise
        self._number += 1
        os.close(self._log)
        self._log, self._size, self._is_at_start = log, 0, True
        if (oldest := self._number - self._max_files + 1) > 0:
            try:
                os.unlink(f"{_LOG}.{oldest}", dir_fd=self._here)
            except OSError:
                pass  # it is gone, or stays until the container goes
