"""Patterns as Go reads them: each row was tried with Go's own functions."""

from __future__ import annotations

import pytest

from plugbay.plugins.generic.config.globs import Glob, GlobProblem, parse_glob


@pytest.mark.parametrize(
    ("pattern", "path", "is_match"),
    [
        ("/dev/ttyUSB*", "/dev/ttyUSB0", True),
        ("/dev/ttyUSB*", "/dev/ttyUSB", True),
        ("/dev/ttyUSB*", "/dev/ttyUSB/0", False),
        ("/dev/*", "/dev/.hidden", True),
        ("/dev/tty?", "/dev/tty1", True),
        ("/dev/tty?", "/dev/tty", False),
        ("/dev/tty?", "/dev/ttyé", True),
        ("/dev/video[0-3]", "/dev/video3", True),
        ("/dev/video[0-3]", "/dev/video4", False),
        ("/dev/video[^0-3]", "/dev/video4", True),
        ("/dev/video[^0-3]", "/dev/video0", False),
        ("/dev/video[!0]", "/dev/video!", True),
        ("/dev/video[!0]", "/dev/video1", False),
        ("/dev/[z-a]", "/dev/b", False),
        ("/dev/[^z-a]", "/dev/b", True),
        (r"/dev/[\]]", "/dev/]", True),
        (r"/dev/[\--a]", "/dev/0", True),
        ("/dev/[[]", "/dev/[", True),
        ("/dev/]", "/dev/]", True),
        (r"/dev/a\*b", "/dev/a*b", True),
        (r"/dev/a\*b", "/dev/axb", False),
        (r"/dev/\x", "/dev/x", True),
        ("/dev/{a,b}", "/dev/{a,b}", True),
        ("/dev/**", "/dev/a/b", False),
        ("/dev/../dev/x[01]", "/dev/x0", True),
        ("//dev/./x*", "/dev/xy", True),
        ("/dev/[/../x*", "/dev/xy", True),
        ("/dev/*/by-id", "/dev/serial/by-id", True),
        ("/dev/a.b", "/dev/axb", False),
    ],
)
def test_a_pattern_matches_what_go_matches(pattern: str, path: str, is_match: bool) -> None:
    glob = parse_glob(pattern)
    assert isinstance(glob, Glob)
    assert glob.matches(path) is is_match


@pytest.mark.parametrize(
    ("pattern", "offset", "part"),
    [
        ("/dev/[", 5, "has no ]"),
        ("/dev/x[a", 6, "has no ]"),
        ("/dev/[]", 6, "before this ]"),
        ("/dev/[]a]", 6, "before this ]"),
        ("/dev/[^]", 7, "before this ]"),
        ("/dev/[a-]", 8, "before this ]"),
        ("/dev/[-a]", 6, "before this -"),
        ("/dev/x\\", 6, "backslash"),
        ("/dev/[a/b]", 5, "has no ]"),
        ("dev/x", 0, "begins with /"),
        ("", 0, "begins with /"),
    ],
)
def test_a_text_that_is_no_pattern_is_told_with_its_place(pattern: str, offset: int, part: str) -> None:
    problem = parse_glob(pattern)
    assert isinstance(problem, GlobProblem)
    assert (problem.offset, part in problem.text) == (offset, True)


@pytest.mark.parametrize(
    ("pattern", "path", "is_touched"),
    [
        ("/dev/ttyUSB*", "/dev/ttyUSB0", True),
        ("/dev/ttyUSB*", "/dev/ttyACM0", False),
        ("/dev/ttyUSB*", "/dev", True),
        ("/dev/ttyUSB*", "/", True),
        ("/dev/ttyUSB*", "/devices", False),
        ("/dev/fuse", "/dev/fuse", True),
        ("/dev/fuse", "/dev/fuse2", False),
        ("/dev/snd/*/x", "/dev/snd/a", True),
        ("/dev/snd/*/x", "/dev/snd/a/x", True),
        ("/dev/snd/*/x", "/dev/snd/a/y", False),
        ("/dev/snd/*/x", "/dev/snd/a/x/y", False),
    ],
)
def test_a_pattern_is_touched_by_matches_and_directories_on_the_way(pattern: str, path: str, is_touched: bool) -> None:
    glob = parse_glob(pattern)
    assert isinstance(glob, Glob)
    assert glob.is_touched_by(path) is is_touched
