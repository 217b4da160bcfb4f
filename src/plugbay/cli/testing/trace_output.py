"""The output of ``plugbay trace``: lines for people or for programs on standard output, and a file with everything."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from plugbay.cli.printing.output import show, show_note
from plugbay.cli.printing.table import printable
from plugbay.errors import PathUnusable
from plugbay.testing.tracing.file_format import header_line, read_trace, record_line
from plugbay.testing.tracing.lines import TraceLines
from plugbay.testing.tracing.masking import masked
from plugbay.testing.tracing.selection import Selection
from plugbay.testing.traffic.records import TrafficRecord


class TraceOutput:
    """Takes records as they come.

    Args:
        path: a file that is made, and must not be there yet; None for none.
    """

    def __init__(
        self, selection: Selection, *, path: Path | None, is_json: bool, is_full: bool, is_masked: bool
    ) -> None:
        self._selection = selection
        self._path = path
        self._is_json = is_json
        self._is_masked = is_masked
        self._lines = TraceLines(is_full=is_full)
        self._file: TextIO | None = None
        self._count = 0

    def __enter__(self) -> Self:
        header = header_line(datetime.now(UTC), is_masked=self._is_masked)
        if self._path is not None:
            try:
                self._file = self._path.open("x", encoding="utf-8")
            except FileExistsError:
                raise PathUnusable(str(self._path), "this file is here already; give another one") from None
            self._file.write(header)
        if self._is_json:
            show(header)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
            show_note(f"{self._count} records are in {self._path}")

    def take(self, record: TrafficRecord) -> None:
        """Show a record, if it is selected, and write it to the file."""
        record = masked(record) if self._is_masked else record
        if self._file is not None:
            self._count += 1
            self._file.write(record_line(record))
            self._file.flush()
        if not self._selection.has(record):
            return
        if self._is_json:
            show(record_line(record))
        elif (line := self._lines.line(record)) is not None:
            show(f"{printable(line)}\n")


def show_file(source: str, selection: Selection, *, is_json: bool, is_full: bool, is_masked: bool) -> None:
    """Show a file, or standard input.

    Raises:
        InvalidDocument: it is not a trace.
    """
    with (
        opened(source) as lines,
        TraceOutput(selection, path=None, is_json=is_json, is_full=is_full, is_masked=is_masked) as output,
    ):
        for record in read_trace(lines, source):
            output.take(record)


@contextmanager
def opened(source: str) -> Iterator[TextIO]:
    """A file, or standard input for ``-``."""
    if source == "-":
        yield sys.stdin
        return
    with Path(source).open(encoding="utf-8", errors="replace") as file:
        yield file
