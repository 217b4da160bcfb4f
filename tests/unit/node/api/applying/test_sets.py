"""Sets of fields and their form in managed fields; names in brackets are upstream's tests of the same fact."""

from __future__ import annotations

import json

import pytest

from plugbay.node.api.applying.elements import (
    Path,
    UnreadableElement,
    element_order,
    element_text,
    field,
    key,
    path_text,
    read_element,
    value,
)
from plugbay.node.api.applying.sets import FieldSet, UnreadableSet

A, B, C = field("a"), field("b"), field("c")


@pytest.mark.parametrize(
    "text", ["i:0", "i:1234", "f:", "f:spec", "f:more-complicated-string", 'k:{"name":"my-container"}',
             'k:{"port":"8080","protocol":"TCP"}', 'k:{"optionalField":null}', 'k:{"a":1.5,"b":true,"c":["x"]}',
             "v:null", "v:42", "v:4.2", "v:true", "v:false", 'v:"some-string"', 'v:"<b> \\"quoted\\""'],
)  # fmt: skip
def test_a_step_is_read_and_written_again(text: str) -> None:
    """[TestPathElementRoundTrip]"""
    once = read_element(text)
    assert once is not None
    assert json.loads(f"[{once[2:]}]" if once[0] in "kv" else "0") == json.loads(
        f"[{text[2:]}]" if text[0] in "kv" else "0"
    )
    assert read_element(once) == once


@pytest.mark.parametrize("text", ["", "no-colon", "i:index is not a number", "i:1.23", "i:", "v:invalid json",
                                  "v:", "k:invalid json", "k:[]", 'k:{"name":invalid}', "v:1 2"])  # fmt: skip
def test_what_is_no_step_is_refused(text: str) -> None:
    """[TestDeserializePathElementError]"""
    with pytest.raises(UnreadableElement):
        read_element(text)


def test_a_step_of_a_kind_that_is_not_known_is_left_out() -> None:
    """[TestPathElementIgnoreUnknown]"""
    assert read_element("r:Hello") is None
    assert FieldSet.from_v1({"r:Hello": {"f:x": {}}, "f:a": {}}) == FieldSet.of([(A,)])


def test_numbers_are_the_same_however_they_are_written() -> None:
    assert read_element("v:1.0") == value(1) == value(1.0) == "v:1"
    assert value(True) != value(1)
    assert read_element('k:{"b": 1, "a": "x"}') == key({"a": "x", "b": 1.0}) == 'k:{"a":"x","b":1}'
    assert value("<&>") == 'v:"\\u003c\\u0026\\u003e"' == read_element('v:"<&>"')


def test_steps_have_an_order() -> None:
    """Fields, keys, values, indices [TestPathElementLess]."""
    ordered = [A, B, field("é"), 'k:{"a":1}', 'k:{"a":1,"b":1}', 'k:{"a":"1"}', 'k:{"b":1}', "v:-1", "v:1.5", "v:10",
               'v:"a"', "v:false", "v:true", "v:null", "i:2", "i:10"]  # fmt: skip
    assert [element_order(each) for each in ordered] == sorted(element_order(each) for each in ordered)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((field("spec"), field("containers"), 'k:{"name":"x"}', field("image")), '.spec.containers[name="x"].image'),
        ((field("ports"), 'k:{"containerPort":80,"protocol":"TCP"}'), '.ports[containerPort=80,protocol="TCP"]'),
        ((field("finalizers"), 'v:"a/b"'), '.finalizers[="a/b"]'),
        ((field("l"), "v:true"), ".l[=true]"),
        ((field("l"), "i:3"), ".l[3]"),
        ((), ""),
    ],
)
def test_a_path_reads_as_in_errors(path: Path, text: str) -> None:
    """[TestPathString]"""
    assert path_text(path) == text
    assert element_text('k:{"flag":false,"none":null}') == "[flag=false,none=null]"


SET = FieldSet.of([(A,), (A, B), (A, B, C), (B, key({"name": "x"})), (B, key({"name": "x"}), C), (C, value(1))])
FIELDS = {
    "f:a": {".": {}, "f:b": {".": {}, "f:c": {}}},
    "f:b": {'k:{"name":"x"}': {".": {}, "f:c": {}}},
    "f:c": {"v:1": {}},
}


def test_a_set_is_written_and_read() -> None:
    """[TestSerializeV1, TestSerializeV1GoldenData]"""
    assert SET.to_v1() == FIELDS
    assert FieldSet.from_v1(FIELDS) == SET
    assert FieldSet.from_v1({}) == FieldSet.from_v1(None) == FieldSet()
    assert json.dumps(FieldSet.of([(B,), (A,), (value(2),), (value(10),)]).to_v1()) == (
        '{"f:a": {}, "f:b": {}, "v:2": {}, "v:10": {}}'
    )


@pytest.mark.parametrize("fields", [[], "f:a", {"f:a": 1}, {"f:a": {"nocolon": {}}}])
def test_what_is_no_set_is_refused(fields: object) -> None:
    """[TestDropUnknown, errors]"""
    with pytest.raises(UnreadableSet):
        FieldSet.from_v1(fields)


def test_a_set_without_members_below_is_a_member_itself() -> None:
    assert FieldSet.from_v1({"f:a": {"x:unknown": {}}}) == FieldSet.of([(A,)])


def test_sets_are_joined_cut_and_subtracted() -> None:
    """[TestSetUnion, TestSetIntersectionDifference]"""
    one, other = FieldSet.of([(A,), (A, B), (B, C)]), FieldSet.of([(A, B), (C,), (B, A)])
    assert one | other == FieldSet.of([(A,), (A, B), (B, C), (C,), (B, A)])
    assert one & other == FieldSet.of([(A, B)])
    assert one - other == FieldSet.of([(A,), (B, C)])
    assert one - FieldSet.of([(A,)]) == FieldSet.of([(A, B), (B, C)]), "what lies below stays"
    assert one.without_below(FieldSet.of([(A,)])) == FieldSet.of([(B, C)]), "[TestSetDifference, recursive]"
    assert not one - one
    assert one
    assert (A, B) in one
    assert (B,) not in one
    assert (A, B, C) not in one
    assert () not in one
    assert "a" not in one


def test_the_paths_of_a_set_have_an_order() -> None:
    """[TestSetIterSize]"""
    paths = list(SET.paths())
    assert [path_text(path) for path in paths] == [
        ".a", ".a.b", ".a.b.c", '.b[name="x"]', '.b[name="x"].c', ".c[=1]",
    ]  # fmt: skip
    assert FieldSet.of(paths) == SET
