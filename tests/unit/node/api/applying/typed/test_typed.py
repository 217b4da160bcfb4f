"""Values by their type: their fields, differences, merges. Names in brackets are upstream's tests of the same fact."""

from __future__ import annotations

from typing import Any

import pytest

from plugbay.node.api.applying.elements import path_text
from plugbay.node.api.applying.sets import FieldSet
from plugbay.node.api.applying.typed.comparing import compare, fields_of
from plugbay.node.api.applying.typed.merging import merged
from plugbay.node.api.applying.typed.reconciling import reconciled
from plugbay.node.api.applying.typed.removing import removed, with_parents
from plugbay.node.api.applying.typed.types import (
    ATOMIC,
    DEDUCED,
    SCALAR,
    VALUE_SET,
    FieldType,
    MapType,
    ScalarType,
    keyed,
    map_of,
    struct,
)
from plugbay.node.api.applying.typed.validation import check_type
from plugbay.node.api.applying.typed.walking import ABSENT, MistypedValue, is_same

ITEM = struct(tags=VALUE_SET)
OBJECT = struct(
    list=keyed(ITEM, name=""),
    ports=keyed(struct(), port=None, protocol="TCP"),
    set=VALUE_SET,
    whole=ATOMIC,
    maps=map_of(struct()),
    free=DEDUCED,
)
STRICT = FieldType(
    map=MapType({
        "number": FieldType(ScalarType.NUMERIC),
        "text": FieldType(ScalarType.STRING),
        "flag": FieldType(ScalarType.BOOLEAN),
        "any": SCALAR,
        "set": VALUE_SET,
        "list": keyed(ITEM, name=None),
    })
)  # fmt: skip


def texts(fields: FieldSet) -> list[str]:
    return [path_text(path) for path in fields.paths()]


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        ({"a": 1, "b": {"c": "x"}}, [".a", ".b.c"]),
        ({"b": {}}, [".b"]),
        ({"b": None}, [".b"]),
        ({"l": [1, 2]}, [".l"]),
        ({"whole": {"a": {"b": 1}}}, [".whole"]),
        ({"set": ["b", "a"]}, ['.set[="a"]', '.set[="b"]']),
        ({"set": ["a", "a"]}, ['.set[="a"]']),
        ({"set": []}, []),
        ({"list": [{"name": "x", "v": 1}]}, ['.list[name="x"]', '.list[name="x"].name', '.list[name="x"].v']),
        ({"list": [{"name": "x", "v": 1}, {"name": "x"}]}, ['.list[name="x"]']),
        ({"list": [{"v": 1}]}, ['.list[name=""]', '.list[name=""].v']),
        ({"ports": [{"port": 1}]}, ['.ports[port=1,protocol="TCP"]', '.ports[port=1,protocol="TCP"].port']),
        ({"ports": [{"protocol": "UDP"}]}, ['.ports[protocol="UDP"]', '.ports[protocol="UDP"].protocol']),
        ({"maps": {"k": {"a": 1}}}, [".maps.k", ".maps.k.a"]),
        ({"free": {"a": {"b": [1]}}}, [".free.a", ".free.a.b"]),
    ],
)
def test_the_fields_of_a_value(value: Any, fields: list[str]) -> None:
    """[TestToFieldSet, TestDefaultKeys]"""
    assert texts(fields_of(value, OBJECT)) == fields


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ({"a": 1}, {"a": 1.0}, ([], [], [])),
        ({"a": 1}, {"a": True}, ([], [".a"], [])),
        ({"a": 1}, {"b": 1}, ([".a"], [], [".b"])),
        ({"m": {"x": 1}}, {}, ([".m", ".m.x"], [], [])),
        ({}, {"m": {"x": {"y": 1}}}, ([], [], [".m", ".m.x", ".m.x.y"])),
        ({"a": None}, {}, ([".a"], [], [])),
        ({"a": None}, {"a": {}}, ([], [".a"], [])),
        ({"whole": {"a": 1}}, {"whole": {"a": 2}}, ([], [".whole"], [])),
        ({"set": ["a", "b"]}, {"set": ["b", "a"]}, ([], [], [])),
        ({"set": ["a"]}, {"set": ["b"]}, (['.set[="a"]'], [], ['.set[="b"]'])),
        ({"set": ["a", "a"]}, {"set": ["a"]}, (['.set[="a"]'], [], ['.set[="a"]'])),
        ({"set": ["a"]}, {"set": ["a", "a"]}, (['.set[="a"]'], [], ['.set[="a"]'])),
        ({"set": ["a", "a"]}, {"set": ["a", "a", "a"]}, ([], ['.set[="a"]'], [])),
        ({"list": [{"name": "x", "v": 1}]}, {"list": [{"v": 2, "name": "x"}]}, ([], ['.list[name="x"].v'], [])),
        ({"free": {"a": 1}}, {"free": {"a": {"b": 1}}}, ([], [".free.a"], [".free.a.b"])),
        ({"free": [1]}, {"free": {"b": 1}}, ([], [".free"], [".free.b"])),
    ],
)
def test_the_differences_of_values(before: Any, after: Any, changed: tuple[list[str], ...]) -> None:
    """[TestSymdiff, TestAddUpdateRemoveDuplicates]"""
    found = compare(before, after, OBJECT)
    assert (texts(found.removed), texts(found.modified), texts(found.added)) == changed


@pytest.mark.parametrize(
    ("before", "config", "result"),
    [
        ({"a": 1, "b": 2}, {"b": 3, "c": 4}, {"a": 1, "b": 3, "c": 4}),
        ({"m": {"x": 1}}, {"m": {}}, {"m": {"x": 1}}),
        ({"m": {}}, {}, {"m": {}}),
        ({"m": {"x": 1}}, {"m": 5}, {"m": 5}),
        ({"whole": {"a": 1}}, {"whole": {"b": 1}}, {"whole": {"b": 1}}),
        ({"l": [1, 2]}, {"l": [3]}, {"l": [3]}),
        ({"set": ["a", "c"]}, {"set": ["b"]}, {"set": ["a", "c", "b"]}),
        ({"set": ["a", "b", "c"]}, {"set": ["c", "a"]}, {"set": ["b", "c", "a"]}),
        ({"set": ["a", "b", "c", "d"]}, {"set": ["d", "x", "b"]}, {"set": ["a", "c", "d", "x", "b"]}),
        ({"set": ["a", "b", "c", "d"]}, {"set": ["a", "x", "c"]}, {"set": ["a", "b", "x", "c", "d"]}),
        ({"set": ["a", "b", "b"]}, {"set": ["b", "c"]}, {"set": ["a", "b", "c"]}),
        ({"list": [{"name": "a", "v": 1}]}, {"list": [{"name": "b"}, {"name": "a", "w": 2}]},
         {"list": [{"name": "b"}, {"name": "a", "v": 1, "w": 2}]}),
        (None, {"a": {"b": 1}}, {"a": {"b": 1}}),
    ],
)  # fmt: skip
def test_a_configuration_is_merged(before: Any, config: Any, result: Any) -> None:
    """[TestMerge: order of lists, TestMergeDuplicates]"""
    assert merged(before, config, OBJECT) == result


def test_items_that_stand_twice_cannot_be_merged() -> None:
    with pytest.raises(MistypedValue, match=r'\.set: duplicate entries for key \[="a"\]'):
        merged({"set": []}, {"set": ["a", "a"]}, OBJECT)


@pytest.mark.parametrize(
    ("value", "fields", "result"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, {"b": 2}),
        ({"m": {"x": 1, "y": 2}}, {"m": {"x": 1}}, {"m": {"y": 2}}),
        ({"m": {"x": 1}}, {"m": {"x": 1}}, {"m": None}),
        ({"set": ["a", "b"]}, {"set": ["a"]}, {"set": ["b"]}),
        ({"set": ["a"]}, {"set": ["a"]}, {"set": None}),
        ({"list": [{"name": "a"}, {"name": "b", "v": 1}]}, {"list": [{"name": "b"}]}, {"list": [{"name": "a"}]}),
        ({"whole": {"a": 1}}, {"whole": {"b": 2}}, None),
        ({"l": [1], "n": 1}, {"l": [2]}, {"n": 1}),
    ],
)
def test_fields_are_taken_out(value: Any, fields: Any, result: Any) -> None:
    """What is empty then is null [TestRemove]."""
    assert removed(value, fields_of(fields, OBJECT), OBJECT) == result


def test_declared_fields_are_members_with_what_is_in_them() -> None:
    """[TestEnsureNamedFieldsAreMembers]"""
    fields = FieldSet.from_v1({"f:a": {"f:b": {}}, "f:list": {'k:{"name":"x"}': {"f:t": {"f:u": {}}}},
                               "f:maps": {"f:k": {"f:a": {"f:z": {}}}}})  # fmt: skip
    assert texts(with_parents(fields, OBJECT)) == [
        ".a", ".list", ".maps", ".a.b", '.list[name="x"].t', '.list[name="x"].t.u', ".maps.k.a", ".maps.k.a.z",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"number": "1"}, ".number: expected numeric (int or float), got '1'"),
        ({"text": 1}, ".text: expected string, got 1"),
        ({"flag": "true"}, ".flag: expected boolean, got 'true'"),
        ({"number": True}, ".number: expected numeric (int or float), got true"),
        ({"any": {}}, ".any: expected any scalar, got a mapping"),
        ({"set": {}}, ".set: expected list, got a mapping"),
        ({"set": [[]]}, ".set: a list of plain values has an item that is a list"),
        ({"set": [None]}, ".set: a list of plain values has an item that is null"),
        ({"list": ["x"]}, ".list: an item of a list with keys must be a mapping"),
        ({"list": [{"v": 1}]}, ".list: an item has none of the fields that tell it apart: name"),
        ({"list": [{"name": "x"}, {"name": "x"}]}, '.list: duplicate entries for key [name="x"]'),
        ({"list": [{"name": "x", "tags": [{}]}]},
         '.list[name="x"].tags: a list of plain values has an item that is a mapping'),
        ({"other": 1}, ".other: field not declared in schema"),
        ([], "expected map, got a list"),
    ],
)  # fmt: skip
def test_values_of_another_type_are_refused(value: Any, problem: str) -> None:
    """[TestValidate]"""
    with pytest.raises(MistypedValue) as refusal:
        check_type(value, STRICT)
    assert str(refusal.value).removeprefix(": ") == problem


def test_all_problems_are_told_and_duplicates_are_allowed_in_old_objects() -> None:
    with pytest.raises(MistypedValue, match=r"(?s)errors:.*\.number.*\.text"):
        check_type({"number": "1", "text": 1}, STRICT)
    check_type({"set": ["a", "a"], "number": None}, STRICT, duplicates_allowed=True)


def test_owners_of_parts_own_the_whole_once_it_is_atomic() -> None:
    """[TestReconcileFieldSetWithSchema]"""
    parts = FieldSet.from_v1({"f:whole": {"f:a": {}, "f:b": {"f:c": {}}}, "f:x": {}})
    assert texts(reconciled(parts, struct(whole=FieldType(map=MapType(is_atomic=True))))) == [".whole", ".x"]
    items = FieldSet.from_v1({"f:list": {'k:{"name":"x"}': {".": {}, "f:v": {}}}})
    assert texts(reconciled(items, struct(list=FieldType(list=ATOMIC.list)))) == [".list"]
    assert reconciled(parts, OBJECT) == parts


def test_a_boolean_is_not_a_number() -> None:
    assert is_same({"a": [1, {"b": 2.0}]}, {"a": [1.0, {"b": 2}]})
    assert not is_same({"a": [1]}, {"a": [True]})
    assert not is_same(0, False)
    assert not is_same({"a": None}, {})
    assert compare(ABSENT, {"a": 1}, DEDUCED).added == FieldSet.of([("f:a",)])
