"""The progress of a run is shown on a terminal, as one line that is written over; elsewhere it is not shown."""

from __future__ import annotations

import io
import sys

import pytest

from plugbay.cli.testing.verdict_progress import ShownProgress
from plugbay.testing.conformance.catalogue import rule_named
from plugbay.testing.conformance.findings import RuleOutcome, Verdict


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def played(progress: ShownProgress) -> None:
    progress.playing("lists", "example.com/gpu")
    progress.judged(Verdict(rule_named("PB302"), "example.com/gpu", RuleOutcome.PASSED), 1, 2)
    failed = Verdict(rule_named("PB303"), "example.com/gpu", RuleOutcome.FAILED, ("'a\x1b[31m' is more than once",))
    progress.judged(failed, 2, 2)
    progress.end()


def test_terminal_shows_scenes_counts_and_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    played(ShownProgress())
    shown = terminal.getvalue().split("\r\x1b[K")
    assert "lists (example.com/gpu)" in shown
    assert "1 of 2 judged: " in shown
    assert "PB303 (must) 'a\\x1b[31m' is more than once\n" in shown
    assert shown[-1] == ""


def test_file_gets_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    played(ShownProgress())
    assert file.getvalue() == ""
