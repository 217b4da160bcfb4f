"""Log records as JSON: one object a line, whatever is logged."""

from __future__ import annotations

import json
import logging
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.ops.logs import PLAIN, JsonFormatter, TextFormatter

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=8,
)


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError


def logged(message: Any, *values: Any, **settings: Any) -> dict[str, Any]:
    """What the line of a record holds, read back as strictly as JSON allows."""
    extra = settings.pop("extra", None)
    exc_info = settings.pop("exc_info", None)
    logger = logging.Logger("plugbay.some.part")
    record = logger.makeRecord(logger.name, logging.WARNING, "file.py", 7, message, values, exc_info, extra=extra)
    line = JsonFormatter().format(record)
    assert "\n" not in line
    line.encode()
    read: dict[str, Any] = json.loads(line, parse_constant=pytest.fail)
    return read


def test_line_has_time_level_logger_message_and_the_values() -> None:
    fields = logged("%s: device %s is gone, %d left", "example.com/gopher", "g1", 3)
    time = fields.pop("time")
    assert time[10] == "T"
    assert time[19] == "."
    assert time.endswith("Z")
    assert fields == {
        "level": "warning",
        "logger": "plugbay.some.part",
        "message": "example.com/gopher: device g1 is gone, 3 left",
        "template": "%s: device %s is gone, %d left",
        "values": ["example.com/gopher", "g1", 3],
    }


def test_extra_values_are_fields_of_their_own_and_hide_none_of_ours() -> None:
    fields = logged("allocated", extra={"pod_uid": "u1", "devices": ("a", "b"), "level": "mine"})
    assert (fields["pod_uid"], fields["devices"], fields["level"]) == ("u1", ["a", "b"], "warning")
    assert "template" not in fields


def test_exception_is_a_field() -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError as error:
        fields = logged("it failed", exc_info=(type(error), error, error.__traceback__))
    assert fields["message"] == "it failed"
    assert fields["exception"].startswith("Traceback (most recent call last):\n")
    assert fields["exception"].endswith("ValueError: first\nsecond")


def test_values_that_do_not_fit_their_template_are_logged_beside_it() -> None:
    fields = logged("%d devices of %s", "many")
    assert (fields["message"], fields["values"]) == ("%d devices of %s", ["many"])


def test_values_that_are_no_json_are_text() -> None:
    fields = logged("%s", 1, extra={"a": math.nan, "b": math.inf, "c": {1}, "d": Unprintable(), "e": "\udcff"})
    assert [fields[name] for name in "abcde"] == [
        "nan",
        "inf",
        "{1}",
        "<Unprintable whose text raised RuntimeError>",
        "\\udcff",
    ]


def test_list_that_holds_itself_is_cut() -> None:
    endless: list[object] = []
    endless.append(endless)
    assert "[[...]]" in json.dumps(logged("%s", endless)["values"])


@given(values=st.lists(ANYTHING, max_size=3), text=st.text(), extra=ANYTHING)
def test_any_record_is_one_line_of_json(values: list[Any], text: str, extra: Any) -> None:
    assert logged(text, *values, extra={"more": extra})["level"] == "warning"


def lines_of(message: str, *values: object, error: BaseException | None = None) -> list[str]:
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    record = logging.LogRecord("n", logging.WARNING, "p", 1, message, values, exc_info)
    return TextFormatter(PLAIN).format(record).split("\n")


@given(text=st.text(), cause=st.text())
def test_no_text_takes_over_a_terminal_or_passes_for_a_record(text: str, cause: str) -> None:
    first, *further = lines_of("a plugin says: %s", text, error=ValueError(cause))
    assert first.startswith("WARNING a plugin says: ")
    assert all(line.startswith("    ") for line in further)
    assert all(each.isprintable() or each == "\t" for line in (first, *further) for each in line)


def test_traceback_and_lines_of_our_own_stay_readable() -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError as error:
        lines = lines_of("with the configuration:\n%s", "a: 1\nb: 2\x1b[2J", error=error)
    assert lines[:4] == [
        "WARNING with the configuration:",
        "    a: 1",
        r"    b: 2\x1b[2J",
        "    Traceback (most recent call last):",
    ]
    assert lines[-2:] == ["    ValueError: first", "    second"]


def test_texts_without_end_are_cut() -> None:
    line = logged("a plugin says: %s", "x" * 4_000_000)
    for text in (line["message"], line["values"][0]):
        assert len(text) < 20_000
        assert text.endswith(" more characters)")
    record = logging.LogRecord("n", logging.INFO, "p", 1, "a plugin says: %s", ("x" * 4_000_000,), None)
    assert len(TextFormatter(PLAIN).format(record)) < 20_000
