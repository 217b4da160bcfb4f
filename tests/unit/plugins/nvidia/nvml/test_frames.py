"""What a worker writes is a frame or is told to be none: a driver that crashes may have written it."""

from __future__ import annotations

import pickle

import pytest

from plugbay.plugins.nvidia.nvml.connection import decoded


@pytest.mark.parametrize(
    "frame",
    [
        ("answer", 1, ("returned", {})),
        ("event", "GPU-1", 8, 79, None, None),
        ("unwatched", 0, "a problem"),
        ("started", 4711, False),
        ("reading", 3, 8),
    ],
)
def test_frames_are_read(frame: tuple[object, ...]) -> None:
    assert decoded(pickle.dumps(frame)) == frame


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80",
        b"\xff" * 40,
        b"h\x00.",
        b"0.",
        b"\x8c\x02\xff\xff.",
        b"cno.such\nmodule\n.",
        b"\x8a\xff" + b"\x01" * 9 + b".",
        *map(pickle.dumps, [7, None, [], (), "answer", {}, (1, 2, 3), ("answer", 1), ("else",)]),
        pickle.dumps(("event", "GPU-1", 8, 79)),
        pickle.dumps(("answer", 1, "x"))[:-3],
    ],
)
def test_anything_else_is_none(content: bytes) -> None:
    assert decoded(content) is None
