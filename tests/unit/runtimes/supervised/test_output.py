"""What a container writes when the machine is short of something for a moment."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.runtimes.logs.files import rotated
from plugbay.runtimes.logs.lines import LogDecoder
from plugbay.runtimes.supervised.output import Output, ends_mid_line, lines_of, text_size


@pytest.fixture
def output(tmp_path: Path) -> Iterator[Output]:
    here = os.open(tmp_path, os.O_RDONLY)
    made = Output(here, max_bytes=220, max_files=3)
    yield made
    for descriptor in (*made.sources, *made.given):
        os.close(descriptor)
    os.close(here)


def texts(path: Path) -> list[str]:
    return LogDecoder().feed(path.read_bytes()).decode().splitlines()


def test_a_rotation_that_fails_once_is_tried_again(
    output: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, failures = os.rename, [OSError(errno.ENFILE, "Too many open files in system")]

    def failing(*args: Any, **options: Any) -> None:
        if failures:
            raise failures.pop()
        rename(*args, **options)

    monkeypatch.setattr(os, "rename", failing)
    for number in range(6):
        os.write(output.given[0], b"%029d\n" % number)
        output.pump(next(iter(output.sources)))
    assert not failures
    assert texts(tmp_path / "log.1") == [f"{number:029}" for number in range(3)]
    assert texts(tmp_path / "log.2") == [
        "plugbay: 30 bytes of output are missing here: Too many open files in system",
        f"{4:029}",
    ]
    assert texts(tmp_path / "log") == [f"{5:029}"]


def test_a_line_whose_rest_is_there_is_not_cut(output: Output, tmp_path: Path) -> None:
    source = next(iter(output.sources))
    os.write(output.given[0], b"".join(b"%07d\n" % number for number in range(100)) + b"end")
    for _ in range(4):
        assert output.pump(source, chunks=1)
        assert not ends_mid_line((tmp_path / "log").read_bytes())
    output.pump(source)
    assert texts(tmp_path / "log")[-1] == "end"
    assert all(len(text) == 7 for path in (*rotated(tmp_path / "log"), tmp_path / "log") for text in texts(path)[:-1])


def test_what_fills_a_turn_is_written_although_its_line_goes_on_later(output: Output, tmp_path: Path) -> None:
    os.write(output.given[0], b"a\n" + b"b" * 168)
    output.pump(next(iter(output.sources)), chunks=1)
    assert (tmp_path / "log").read_bytes().endswith(b" stdout P " + b"b" * 168 + b"\n")


def test_lines_say_their_time_their_stream_and_whether_they_go_on(output: Output, tmp_path: Path) -> None:
    stdout, stderr = output.sources
    for descriptor, source, text in (
        (output.given[0], stdout, b"name: "),
        (output.given[1], stderr, b"a\n\nb\n"),
        (output.given[0], stdout, b"gopher\n"),
    ):
        os.write(descriptor, text)
        assert output.pump(source)
    lines = [line.split(" ", 3) for line in "".join(f.read_text() for f in rotated_files(tmp_path)).splitlines()]
    assert [tuple(line[1:]) for line in lines] == [
        ("stdout", "P", "name: "),
        ("stderr", "F", "a"),
        ("stderr", "F", ""),
        ("stderr", "F", "b"),
        ("stdout", "F", "gopher"),
    ]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", line[0]) for line in lines)


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(min_size=1, max_size=40)), max_size=20))
def test_a_log_holds_what_was_written(chunks: list[tuple[int, bytes]]) -> None:
    lines = b"".join(lines_of(stream, chunk) for stream, chunk in chunks)
    assert LogDecoder().feed(lines) == b"".join(chunk for _, chunk in chunks)
    assert text_size(lines) == sum(len(chunk) for _, chunk in chunks)
    assert ends_mid_line(lines) == (bool(chunks) and not chunks[-1][1].endswith(b"\n"))


def rotated_files(directory: Path) -> list[Path]:
    return [*rotated(directory / "log"), directory / "log"]
