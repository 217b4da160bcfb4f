from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.cni.versions import SUPPORTED, choose, is_at_least, version_key


def test_versions_are_compared_as_numbers() -> None:
    assert sorted(["1.10.0", "1.9.0", "0.10", "0.4.0", "", "2"], key=version_key) == [
        *("", "0.4.0", "0.10", "1.9.0", "1.10.0", "2")
    ]


@pytest.mark.parametrize(
    ("version", "meant"), [("", (0, 1, 0)), ("1", (1, 0, 0)), ("0.4", (0, 4, 0)), ("1.0.0", (1, 0, 0))]
)
def test_missing_parts_are_nought(version: str, meant: tuple[int, int, int]) -> None:
    assert version_key(version) == meant


@pytest.mark.parametrize(
    "text", ["1.0.0.0", "v1.0.0", "1..0", ".", "1.0.0-rc1", "-1", " 1", "1.0\n", "٣.0.0", "9" * 5000]
)
def test_other_texts_are_no_versions(text: str) -> None:
    with pytest.raises(ValueError, match="is not a version"):
        version_key(text)


@pytest.mark.parametrize(
    ("version", "offered", "chosen"),
    [
        ("1.0.0", [], "1.0.0"),
        ("0.4.0", ["0.4.0", "1.0.0", "1.1.0"], "1.1.0"),
        ("0.4.0", ["0.4.0", "1.0.0", "2.0.0"], "1.0.0"),
        ("1.0.0", ["0.4.0"], "1.0.0"),
        ("1.2.0", ["9.0.0"], "1.2.0"),
        ("9.0.0", ["0.3.1"], "0.3.1"),
        ("", ["0.4.0"], "0.4.0"),
    ],
)
def test_highest_that_is_known_is_chosen(version: str, offered: list[str], chosen: str) -> None:
    assert choose(version, offered) == chosen


@given(st.lists(st.sampled_from(SUPPORTED)), st.sampled_from(SUPPORTED))
def test_choice_does_not_depend_on_the_order(offered: list[str], version: str) -> None:
    chosen = choose(version, offered)
    assert chosen == choose(version, reversed(offered))
    assert all(is_at_least(chosen, each) for each in (version, *offered))
