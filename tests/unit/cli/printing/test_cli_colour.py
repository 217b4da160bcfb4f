"""What is coloured, and where."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Mapping

import pytest

from plugbay.cli.printing.colour import RED, YELLOW, coloured, is_wanted, painted
from plugbay.cli.printing.logs import configure_logs
from plugbay.cli.printing.output import show_page
from plugbay.cli.printing.table import Columns


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "wanted"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
        (io.StringIO(), {"FORCE_COLOR": "1"}, True),
        (io.StringIO(), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colour_is_for_terminals_unless_it_is_asked_for(
    stream: io.StringIO, environ: Mapping[str, str], wanted: bool
) -> None:
    assert is_wanted(stream, environ) is wanted


def test_states_that_want_a_look_are_coloured_and_columns_stay() -> None:
    table = Columns(("NAME", "STATUS", "AGE")).table(
        [("a", "Running", "5s"), ("b", "Failed", "5s"), ("c", "Pending", "5s"), ("d", "OutOfexample.com/g", "1m")]
    )
    page = painted(table)
    assert coloured("Failed", RED) in page
    assert coloured("Pending", YELLOW) in page
    assert coloured("OutOfexample.com/g", RED) in page
    for code in (RED, YELLOW, "0"):
        page = page.replace(f"\x1b[{code}m", "")
    assert page == table


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        ("  g1  example.com/g  Unhealthy  <none>", "Unhealthy"),
        ("  g1  example.com/g  Unhealthy (Hot: 99 degrees)  <none>", "Unhealthy"),
        ("    example.com/g:  g1 (Healthy), g2 (Unhealthy)", "Unhealthy"),
        ("  g1  example.com/g  Unhealthy: XidError  <none>", "Unhealthy: XidError"),
        ("    example.com/g:  g1 (Unhealthy: XidError)", "Unhealthy: XidError"),
        ("    example.com/g:  g1 (gone)", "gone"),
        ("Status:  Failed", "Failed"),
        ("web   0/1   CrashLoopBackOff   3", "CrashLoopBackOff"),
    ],
)
def test_a_state_is_found_in_tables_and_pages(line: str, bad: str) -> None:
    assert painted(line) == line.replace(bad, coloured(bad, RED))


def test_a_state_that_is_not_known_is_coloured_with_what_it_was() -> None:
    state = "Unknown, was Unhealthy: XidError"
    assert painted(f"  g1  {state}  <none>") == f"  g1  {coloured(state, YELLOW)}  <none>"


@pytest.mark.parametrize(
    "line",
    ["web   1/1   Running", "5s   Normal   Pulled   Pod/web   Failed to stay Pending", "Failed-web   1/1   Running"],
)
def test_words_of_sentences_and_names_stay_as_they_are(line: str) -> None:
    assert painted(line) == line


def test_a_page_in_a_pipe_has_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, shown in ((io.StringIO(), "Status:  Failed\n"), (Terminal(), f"Status:  {coloured('Failed', RED)}\n")):
        monkeypatch.setattr(sys, "stdout", stream)
        show_page("Status:  Failed\n")
        assert stream.getvalue() == shown


@pytest.mark.parametrize(("stream", "level"), [(Terminal(), coloured("WARNING", YELLOW)), (io.StringIO(), "WARNING")])
def test_the_level_of_a_log_line_is_coloured_on_a_terminal(stream: io.StringIO, level: str) -> None:
    root = logging.getLogger()
    before, threshold = root.handlers[:], root.level
    try:
        configure_logs("info", stream)
        logging.getLogger("plugbay.test").warning("WARNING of a gopher")
        logging.getLogger("plugbay.test").info("all is well")
    finally:
        root.handlers[:] = before
        root.setLevel(threshold)
    first, second = stream.getvalue().splitlines()
    assert first.endswith(f" {level} WARNING of a gopher")
    assert "\x1b" not in second
