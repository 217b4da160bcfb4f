"""JSONPath as client-go reads it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugbay.errors import UsageError
from plugbay.printers.jsonpath import find_all, parse_path

VALUE: dict[str, Any] = {
    "name": "top",
    "spec": {"n": 3, "on": True, "none": None, "a.b": "dotted"},
    "items": [
        {"name": "a", "size": 1, "ready": False},
        {"name": "b", "size": 5, "ready": True, "want": 5},
        {"name": "c", "size": 5.5, "want": "5.5"},
    ],
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".items[0].name", ["a"]),
        (".items[-1].name", ["c"]),
        (".items[3].name", []),
        (".items[1:].name", ["b", "c"]),
        (".items[:2].name", ["a", "b"]),
        (".items[-2:-1].name", ["b"]),
        (".items[-1:].name", ["c"]),
        (".items[0:3:2].name", ["a", "c"]),
        (".items[0:9].name", []),
        (".items[2:1].name", []),
        (".items[*].name", ["a", "b", "c"]),
        (".items.*.name", ["a", "b", "c"]),
        (".spec.*", [3, True, "dotted"]),
        (".items[0,2].name", ["a", "c"]),
        (".items[0]['name','size']", ["a", 1]),
        ("..name", ["top", "a", "b", "c"]),
        (".items..size", [1, 5, 5.5]),
        ("..['name']", ["top", "a", "b", "c"]),
        (".spec['a.b']", ["dotted"]),
        (r".spec.a\.b", ["dotted"]),
        (".spec.none", []),
        (".items[?(@.size>1)].name", ["b", "c"]),
        (".items[?(@.size>=5.5)].name", ["c"]),
        (".items[?(@.size < 2)].name", ["a"]),
        (".items[?(@.name=='b')].size", [5]),
        ('.items[?(@.name!="b")].name', ["a", "c"]),
        ('.items[?(@.name == "b)")].name', []),
        (".items[?(@.ready==true)].name", ["b"]),
        (".items[?(@.ready=='true')].name", ["b"]),
        (".items[?(@.want)].name", ["b", "c"]),
        (".items[?(@.size==@.want)].name", ["b", "c"]),
        (".items[?(@.name>1)].name", []),
        (".spec[?(@.n)]", []),
        (".name[0]", []),
    ],
)
def test_a_path_leads_to_values(path: str, found: list[object]) -> None:
    assert find_all(VALUE, parse_path(path)) == found


@pytest.mark.parametrize(
    "path",
    [
        *("", ".", ".a[", ".a[]", ".a[ ]", ".a[x]", ".a[1:2:0]", ".a[1:2:3:4]", ".a['b'c]", ".a[?(b==1)]", ".a[?()]"),
        *(".a[?(@.b=~1)]", ".a[?(@.b==c)]", "..a..b", "...", ".a..", ".a" * 600, "[0,1]" * 7),
        *(".a[?(@..b..c)]", f".a[?(@{'[0,1]' * 7})]", f".a[?(@.b==@{'[0,1]' * 7})]"),
    ],
)
def test_what_is_not_a_path_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="is not a JSONPath that plugbay knows"):
        parse_path(path)


PIECES = (
    ".",
    "..",
    "name",
    "items",
    "[",
    "]",
    "*",
    "0",
    "-1",
    ":",
    ",",
    "'",
    '"',
    "?(",
    ")",
    "@",
    "==",
    ">",
    " ",
    "\\",
)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_any_text_is_a_path_or_a_usage_error(text: str) -> None:
    try:
        path = parse_path(text)
    except UsageError:
        return
    find_all(VALUE, path)
