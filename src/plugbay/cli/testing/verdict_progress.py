"""The progress of a run on a terminal: one line that is written over, and a line for each rule that is broken."""

from __future__ import annotations

import sys
from typing import Final

from plugbay.errors.wording import printable
from plugbay.testing.conformance.findings import RuleOutcome, Verdict
from plugbay.testing.conformance.judging import Progress

_CLEAR: Final = "\r\x1b[K"


class ShownProgress(Progress):
    """Shows nothing where standard error is not a terminal."""

    def __init__(self) -> None:
        self._counts = ""
        self._is_shown = sys.stderr.isatty()

    def playing(self, scene: str, resource: str) -> None:
        """A scene begins."""
        self._show(f"{self._counts}{scene}{f' ({resource})' if resource else ''}")

    def judged(self, verdict: Verdict, done: int, of: int) -> None:
        """A rule was judged for a resource."""
        self._counts = f"{done} of {of} judged: "
        if verdict.outcome is RuleOutcome.FAILED:
            text = f"{verdict.rule.name} ({verdict.rule.severity.value}) {verdict.findings[0]}"
            self._write(f"{_CLEAR}{printable(text)}\n")
        self._show(self._counts)

    def end(self) -> None:
        """The run is over."""
        self._show("")

    def _show(self, text: str) -> None:
        self._write(f"{_CLEAR}{printable(text)}")

    def _write(self, text: str) -> None:
        if self._is_shown:
            sys.stderr.write(text)
            sys.stderr.flush()
