"""The end of what a program printed is kept, and no more than that."""

from __future__ import annotations

from plugbay.testing.conformance.subject.output import OutputEnd


def test_little_is_kept_whole() -> None:
    end = OutputEnd(10)
    end.add(b"abc")
    end.add(b"def")
    assert end.text == "abcdef"
    assert end.size == 6


def test_of_much_the_end_is_kept() -> None:
    end = OutputEnd(10)
    for number in range(1000):
        end.add(f"{number:04}".encode())
    assert end.text == "9709980999"
    assert end.size == 4000


def test_of_one_long_piece_the_end_is_kept() -> None:
    end = OutputEnd(10)
    end.add(b"x" * 1_000_000 + b"0123456789")
    assert end.text == "0123456789"


def test_bytes_that_are_no_text_are_shown_escaped() -> None:
    end = OutputEnd()
    end.add(b"\xff\xfeok")
    assert end.text == r"\xff\xfeok"


def test_of_many_short_lines_the_last_are_kept() -> None:
    end = OutputEnd()
    for number in range(5_000):
        end.add(f"{number}\n".encode())
    assert end.text.splitlines() == [str(number) for number in range(4_800, 5_000)]
