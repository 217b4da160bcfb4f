"""Texts made in slices are the texts that would be made at once."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator

import pytest

from plugbay.ops.slices import joined, json_pieces


def test_iterators_are_lists() -> None:
    nested = {
        "a": {"b": [1, {"c": None}]},
        "items": iter([{"name": 'x"', "own": iter([]), "more": {"own": iter([1, 2])}}, {}]),
        "none": iter(()),
        "z": "ä",
    }
    assert json.loads("".join(json_pieces(nested))) == {
        "a": {"b": [1, {"c": None}]},
        "items": [{"name": 'x"', "own": [], "more": {"own": [1, 2]}}, {}],
        "none": [],
        "z": "ä",
    }


@pytest.mark.parametrize("value", [{}, {"a": {}}, [], [{"a": 1}], "a", None, 1.5])
def test_what_has_no_iterators_is_ordinary_json(value: object) -> None:
    assert "".join(json_pieces(value)) == json.dumps(value)


async def test_others_go_on_while_a_text_is_made() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def pieces() -> Iterator[str]:
        for _ in range(5):
            until = time.monotonic() + 0.005
            while time.monotonic() < until:
                pass
            yield "x"

    async with asyncio.TaskGroup() as tasks:
        counting = tasks.create_task(count())
        assert await joined(pieces()) == "xxxxx"
        counting.cancel()
    assert turns > 5
