"""Log files in CRI format say what the container wrote, to the byte."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.runtimes.logs.lines import LogDecoder, follow_log, read_log
from plugbay.runtimes.port import LogLines

TIME = b"2026-11-21T14:00:00.123456789Z"


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        pytest.param(b"T stdout F hello\n", b"hello\n", id="full"),
        pytest.param(b"T stdout P hel\nT stdout F lo\n", b"hello\n", id="partial-continued"),
        pytest.param(b"T stdout P hel\n", b"hel", id="ended-without-newline"),
        pytest.param(b"T stderr F a\nT stdout F b\n", b"a\nb\n", id="both-streams"),
        pytest.param(b"T stdout F \n", b"\n", id="empty-line"),
        pytest.param(b"T stdout F\n", b"\n", id="empty-line-without-space"),
        pytest.param(b"T stdout F  two  spaces \n", b" two  spaces \n", id="spaces"),
        pytest.param(b"T stdout P:x a\nT stdout F:x:y b\n", b"ab\n", id="more-tags"),
        pytest.param(b"not of this format\n", b"not of this format\n", id="foreign"),
        pytest.param(b"\n", b"\n", id="nothing"),
        pytest.param(b"T stdout F half", b"", id="not-yet-ended"),
        pytest.param(b"T stdout F \xff\xfe\n", b"\xff\xfe\n", id="not-utf-8"),
    ],
)
def test_lines_say_what_was_written(lines: bytes, text: bytes) -> None:
    assert LogDecoder().feed(lines.replace(b"T ", TIME + b" ")) == text


@given(
    st.lists(st.binary(max_size=50).map(lambda text: text.replace(b"\n", b"")), max_size=9),
    st.lists(st.sampled_from([b"F", b"P"]), min_size=9, max_size=9),
    st.integers(1, 30),
)
def test_where_the_file_is_cut_makes_no_difference(texts: list[bytes], tags: list[bytes], size: int) -> None:
    pairs = list(zip(texts, tags, strict=False))
    file = b"".join(b"%s stdout %s %s\n" % (TIME, tag, text) for text, tag in pairs)
    decoder = LogDecoder()
    cut = b"".join(decoder.feed(file[start : start + size]) for start in range(0, len(file), size))
    assert cut == b"".join(text + (b"\n" if tag == b"F" else b"") for text, tag in pairs)


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        pytest.param(b"T0.5Z stdout F a\n", b"T0.500000000Z a\n", id="nine-digits"),
        pytest.param(b"T0Z stdout F a\n", b"T0.000000000Z a\n", id="whole-second"),
        pytest.param(b"T0.123456789+02:00 stderr F a\n", b"T0.123456789+02:00 a\n", id="with-a-zone"),
        pytest.param(b"T0Z stdout P a\nT1Z stdout F b\n", b"T0.000000000Z ab\n", id="partial-continued"),
        pytest.param(b"not of this format\n", b"not of this format\n", id="foreign"),
    ],
)
def test_times_are_shown_where_a_line_begins(lines: bytes, text: bytes) -> None:
    shown = LogDecoder(LogLines(are_timed=True)).feed(lines.replace(b"T", b"2026-11-21T14:00:0"))
    assert shown == text.replace(b"T", b"2026-11-21T14:00:0")


@pytest.mark.parametrize(
    ("time", "is_shown"),
    [
        (b"2026-11-21T13:59:59.999999999Z", False),
        (b"2026-11-21T15:59:59.9+02:00", False),
        (b"2026-11-21T14:00:00Z", True),
        (b"2026-11-21T16:00:00.000000001+02:00", True),
        (b"yesterday", True),
        (b"2026-11-21T13:00:00", True),
        (b"\xff", True),
    ],
)
def test_what_is_older_is_left_out_and_what_has_no_time_is_not(time: bytes, is_shown: bool) -> None:
    times = LogLines(since=datetime(2026, 11, 21, 14, tzinfo=UTC))
    assert LogDecoder(times).feed(time + b" stdout F a\n") == b"a\n" * is_shown


async def test_a_log_is_followed_until_its_container_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"t stdout F 1\nt stdout F 2\n")
    ended = asyncio.Event()
    seen = []
    async with asyncio.timeout(30):
        with path.open("ab", buffering=0) as log:
            async for chunk in follow_log(path, tail=1, ended=ended.wait()):
                seen.append(chunk)
                if seen == [b"2\n"]:
                    log.write(b"t stdout F 3\nt stdout P ha")
                elif b"".join(seen) == b"2\n3\n":
                    log.write(b"lf\n")
                    ended.set()
    assert b"".join(seen) == b"2\n3\nhalf"


async def test_a_log_that_is_rotated_is_followed_into_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"t stdout F 1\n")
    ended = asyncio.Event()
    seen = b""
    async with asyncio.timeout(30):
        with path.open("ab", buffering=0) as log:
            async for chunk in follow_log(path, tail=None, ended=ended.wait()):
                seen += chunk
                if seen == b"1\n":
                    path.rename(tmp_path / "0.log.1")
                    log.write(b"t stdout F 2\n")  # the engine has yet to be told
                elif seen == b"1\n2\n":
                    path.write_bytes(b"t stdout F 3\n")
                elif seen == b"1\n2\n3\n":
                    path.rename(tmp_path / "0.log.2")
                    path.write_bytes(b"t stdout F 4\n")
                    ended.set()
    assert seen == b"1\n2\n3\n4\n"


async def test_the_end_of_a_log_and_no_log_at_all(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    assert [chunk async for chunk in read_log(path, tail=None)] == []
    path.write_bytes(b"t stdout F 1\nt stderr F 2\nt stdout F 3\n")
    assert [chunk async for chunk in read_log(path, tail=2)] == [b"2\n3\n"]
    assert [chunk async for chunk in read_log(path, tail=0)] == []
