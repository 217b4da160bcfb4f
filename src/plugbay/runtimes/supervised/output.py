"""Writes a container's output into log files of bounded size; part of the wrapper's program.

``log`` is written; full, it becomes ``log.1``, then ``log.2`` and so on, and the oldest are removed. A number is given
once, so that readers know what comes after what. Their lines are those of CRI: ``TIME STREAM TAG TEXT``, where the tag
``P`` says that the next line goes on with the text, and ``F`` that it ends here. Output is written as it comes, and a
line is cut only where the container pauses amid it, or where a line of the log would get too long.
The container never waits for room on the disk: output that cannot be written is dropped, and a line in the log says so
later.

Source: CRI ``docs``, ``kubelet-cri-logging.md``.
"""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

STDOUT, STDERR = 1, 2
_NAMES = {STDOUT: b"stdout", STDERR: b"stderr"}
_CHUNK_BYTES = 16 * 1024
"""The most text in a line, as with containerd."""
_LINE_START_BYTES = 50
"""The most bytes of a line besides its text."""
_TURN_CHUNKS = 64
_LAST_CHUNKS = 4096
"""The most chunks read after a container's end. Its pipe holds less, unless another process goes on writing."""
_LOG = "log"
_NEXT = "log.next"


class Output:
    """
    Attributes:
        sources: where the container's output is read, and to which stream it belongs.
        given: what the container writes to, stdout and stderr; to be closed once it has them.
        copy: is given all output besides.
    """

    def __init__(self, here: int, *, max_bytes: int, max_files: int) -> None:
        self._here = here
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._chunk_bytes = max(1, min(_CHUNK_BYTES, max_bytes - _LINE_START_BYTES))
        self._number = 0
        self._log = os.open(_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640, dir_fd=here)
        self._size = 0
        self._is_at_start = True
        self._is_mid_line = False
        self._begun: dict[int, bytes] = {}
        """The beginning of a line, by the source from which its rest is read next."""
        self._lost = 0
        self._problem = OSError()
        self.sources: dict[int, int] = {}
        self.copy: Callable[[int, bytes], None] | None = None
        from_stdout, stdout = os.pipe()
        from_stderr, stderr = os.pipe()
        self.given = (stdout, stderr)
        self.add(from_stdout, STDOUT)
        self.add(from_stderr, STDERR)

    def add(self, descriptor: int, stream: int) -> None:
        """Read one more source."""
        os.set_blocking(descriptor, False)
        self.sources[descriptor] = stream

    def pump(self, source: int, chunks: int = _TURN_CHUNKS) -> bool:
        """Write what is there to be read, but let others have a turn; False when nothing can come any more."""
        stream = self.sources[source]
        for _ in range(chunks):
            begun = self._begun.pop(source, b"")
            try:
                chunk = os.read(source, self._chunk_bytes - len(begun))
            except BlockingIOError:
                self._keep(stream, begun)
                return True
            except OSError:
                chunk = b""  # a terminal that no process has any more
            if not chunk:
                self._keep(stream, begun)
                return False
            if self.copy is not None:
                self.copy(stream, chunk)
            chunk = begun + chunk
            if len(chunk) == self._chunk_bytes and (end := chunk.rfind(b"\n") + 1):
                chunk, self._begun[source] = chunk[:end], chunk[end:]  # the rest of a line is likely to be there
            self._keep(stream, chunk)
        if not _can_be_read(source):  # else there is another turn
            self._keep(stream, self._begun.pop(source, b""))
        return True

    def finish(self) -> None:
        """Write what is left of a container that has ended."""
        for source in self.sources:
            self.pump(source, _LAST_CHUNKS)
            self._keep(self.sources[source], self._begun.pop(source, b""))
        self._tell_loss()

    def _keep(self, stream: int, chunk: bytes) -> None:
        lines = lines_of(stream, chunk)
        while len(lines) > (room := self._max_bytes - self._size):
            cut = lines.rfind(b"\n", 0, max(room, 0)) + 1
            if not cut and not self._size:
                break  # a line is longer than a file
            is_written = self._write(lines[:cut])
            lines = lines[cut:]
            try:
                if not is_written:  # what is there is not given up for what cannot be written
                    raise self._problem
                self._rotate()
            except OSError as error:
                self._lose(lines, error)
                return
        self._write(lines)

    def _write(self, lines: bytes) -> bool:
        if lines and self._lost:
            self._tell_loss()
        return self._put(lines)

    def _put(self, lines: bytes) -> bool:
        """False if not all of it could be written."""
        is_mid_line = ends_mid_line(lines) if lines else self._is_mid_line
        while lines:
            try:
                written = os.write(self._log, lines)
            except OSError as error:
                self._lose(lines, error)
                return False
            self._size += written
            self._is_at_start = lines[written - 1] == 10
            lines = lines[written:]
        self._is_mid_line = is_mid_line
        return True

    def _lose(self, lines: bytes, error: OSError) -> None:
        self._lost += text_size(lines)
        self._problem = error

    def _tell_loss(self) -> None:
        """May lose itself, and is told then with what is lost next."""
        if self._lost:
            start = b"" if self._is_at_start else b"\n"
            text = f"plugbay: {self._lost} bytes of output are missing here: {self._problem.strerror}\n".encode()
            lost, self._lost = self._lost, 0
            self._put(start + lines_of(STDOUT, b"\n" + text if self._is_mid_line else text))
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


def _can_be_read(source: int) -> bool:
    ready = select.poll()
    ready.register(source, select.POLLIN)
    return bool(ready.poll(0))


def lines_of(stream: int, chunk: bytes) -> bytes:
    """The lines of a log for what the container has written just now."""
    ns = time.time_ns()
    now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ns // 10**9))
    start = b"%s.%09dZ %s " % (now.encode(), ns % 10**9, _NAMES[stream])
    whole, end, rest = chunk.rpartition(b"\n")
    lines = start + b"F " + whole.replace(b"\n", b"\n" + start + b"F ") + b"\n" if end else b""
    return lines + start + b"P " + rest + b"\n" if rest else lines


def ends_mid_line(lines: bytes) -> bool:
    """Whether the text of the last line goes on."""
    last = lines[lines.rfind(b"\n", 0, -1) + 1 :]
    return last.split(b" ", 3)[2:3] == [b"P"]


def text_size(lines: bytes) -> int:
    """The bytes of output in ``lines``; of a line that is cut off at its beginning, those that are left."""
    size = 0
    for line in lines.removesuffix(b"\n").split(b"\n") if lines else ():
        fields = line.split(b" ", 3)
        is_whole = len(fields) == 4 and fields[1] in _NAMES.values()
        size += len(fields[3]) + (fields[2] == b"F") if is_whole else len(line) + 1
    return size
