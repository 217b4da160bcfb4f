"""Where values stand in a text."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from plugbay.cni.places import Path, Place, path_text, scan

TEXT = b"""{
  "A": [1, {"b \\" c": null},
    "x"], "a": {},
  "d": {"e": []}
}"""


def test_members_and_items_are_found() -> None:
    places = scan(TEXT)
    assert places.by_path[("A", 0)] == Place(2, 9)
    assert places.by_path[("A", 1, 'b " c')] == Place(2, 13)
    assert places.by_path[("A", 2)] == Place(3, 5)
    assert places.by_path["d", "e"] == Place(4, 9)
    assert places.repeated == []


def test_later_member_of_a_name_counts() -> None:
    places = scan(b'{"a": {"b": 1}, "a": {"b": 2}}')
    assert places.repeated == [(("a",), Place(1, 17))]
    assert places.by_path == {("a",): Place(1, 17), ("a", "b"): Place(1, 23)}


def test_what_is_missing_is_where_it_should_be() -> None:
    places = scan(TEXT)
    assert places.of(("d", "e", 5, "x")) == Place(4, 9)
    assert places.of(("z",)) is None
    assert places.of(()) is None


def test_path_is_written_as_people_do() -> None:
    assert path_text(("plugins", 1, "ipam", "ranges", 0, 0)) == "plugins[1].ipam.ranges[0][0]"
    assert path_text(()) == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def paths(value: object, path: Path = ()) -> list[Path]:
    inside: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value))
    return [each for step, inner in inside for each in [(*path, step), *paths(inner, (*path, step))]]


@given(JSON, st.sampled_from([None, 0, 2]), st.booleans())
def test_every_value_has_its_place(value: object, indent: int | None, ensure_ascii: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ensure_ascii)
    places = scan(text.encode())
    assert list(places.by_path) == paths(value)
    lines = text.split("\n")
    for path, place in places.by_path.items():
        at = lines[place.line - 1][place.column - 1 :]
        assert not isinstance(path[-1], str) or at.startswith(json.dumps(path[-1], ensure_ascii=ensure_ascii))
