"""The output of ``plugbay trace``: lines for people or for programs on standard output, and a file with everything."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TextIO

from plugbay.cli.arguments.inputs import STDIN, read_file
from plugbay.cli.printing.output import show, show_note
from plugbay.errors.wording import printable
from plugbay.testing.tracing.lines import TraceLines
from plugbay.testing.tracing.pod_texts import PodTexts
from plugbay.testing.tracing.selection import Selection
from plugbay.traffic.file import MOST_BYTES, RecordingFile
from plugbay.traffic.file_format import RecordLines, header_line, header_of, read_recording
from plugbay.traffic.masking import masked, masked_step
from plugbay.traffic.pod_events import PodEvent
from plugbay.traffic.records import TrafficRecord

MOST_READ_BYTES: Final = 2**30
"""The largest file that is read."""


class TraceOutput:
    """Takes records as they come.

    Args:
        path: a file that is made, and must not be there yet; None for none.
        most_bytes: the greatest size of the file.
        is_shown: whether records go to standard output too.
    """

    def __init__(
        self,
        selection: Selection,
        *,
        path: Path | None,
        is_json: bool,
        is_full: bool,
        is_masked: bool,
        most_bytes: int = MOST_BYTES,
        is_shown: bool = True,
    ) -> None:
        self._selection = selection
        self._path = path
        self._is_json = is_json
        self._is_masked = is_masked
        self._is_shown = is_shown
        self._most_bytes = most_bytes
        self._lines = TraceLines(is_full=is_full)
        self._json_lines = RecordLines()
        self._pods = PodTexts()
        self._file: RecordingFile | None = None

    def __enter__(self) -> Self:
        header = header_of(datetime.now(UTC), is_masked=self._is_masked)
        if self._path is not None:
            self._file = RecordingFile(self._path, header, most_bytes=self._most_bytes)
        if self._is_json:
            show(header_line(header))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
            show_note(f"{self._file.count} records are in {self._path}")

    def take(self, record: TrafficRecord) -> None:
        """Show a record, if it is selected, and write it to the file."""
        record = masked(record) if self._is_masked else record
        if self._file is not None:
            self._keep(self._file, record)
        if not self._is_shown or not self._selection.has(record):
            return
        if self._is_json:
            show(self._json_lines.line(record))
        elif (line := self._lines.line(record)) is not None:
            show(f"{printable(line)}\n")

    def take_step(self, event: PodEvent) -> None:
        """Show a step of a pod, if it is selected."""
        event = masked_step(event) if self._is_masked else event
        if not self._pods.is_selected(event, self._selection):
            return
        show(self._json_lines.line(event) if self._is_json else f"{printable(self._pods.line(event))}\n")

    def _keep(self, file: RecordingFile, record: TrafficRecord) -> None:
        was_full = file.is_full
        file.take(record)
        if file.is_full and not was_full:
            show_note(f"{self._path} has reached --max-size and takes no more; everything else goes on")


def show_file(source: str, selection: Selection, *, is_json: bool, is_full: bool, is_masked: bool) -> None:
    """Show a file, or standard input.

    Raises:
        InvalidDocument: it is not a trace.
    """
    with (
        opened(source) as lines,
        TraceOutput(selection, path=None, is_json=is_json, is_full=is_full, is_masked=is_masked) as output,
    ):
        for line in read_recording(lines, source, torn=tell_torn)[1]:
            if isinstance(line.event, PodEvent):
                output.take_step(line.event)
            else:
                output.take(line.event)


@contextmanager
def opened(source: str) -> Iterator[TextIO]:
    """A file, or standard input for ``-``.

    Raises:
        PathUnusable: it cannot be read.
    """
    if source == STDIN:
        yield sys.stdin
        return
    content = read_file(Path(source), limit=MOST_READ_BYTES)
    yield TextIOWrapper(BytesIO(content), encoding="utf-8", errors="replace", newline="\n")


def tell_torn(number: int) -> None:
    """Say that the last line of a file is left out; see `read_recording`."""
    show_note(f"line {number} ends in its middle, as when a recording is killed; it is left out")
