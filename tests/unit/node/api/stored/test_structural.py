"""Structural schemas prune, fill in and check as an API server does."""

from __future__ import annotations

from typing import Any

import pytest

from plugbay.node.api.stored.custom.pruning import defaulted, pruned
from plugbay.node.api.stored.custom.structural import value_problems

TEXT = {"type": "string"}


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def problems(value: Any, rules: Any) -> list[str]:
    return [str(each) for each in value_problems({"x": value}, schema(x=rules))]


@pytest.mark.parametrize(
    ("value", "rules", "problem"),
    [
        (True, {"type": "integer"}, 'Invalid value: "boolean": x in body must be of type integer: "boolean"'),
        (1.5, {"type": "integer"}, 'Invalid value: "number": x in body must be of type integer: "number"'),
        (None, {"type": "string"}, 'Invalid value: "null": x in body must be of type string: "null"'),
        (5, {"type": "integer", "maximum": 4}, "x in body should be less than or equal to 4"),
        (4, {"type": "integer", "maximum": 4, "exclusiveMaximum": True}, "x in body should be less than 4"),
        (5, {"type": "integer", "multipleOf": 2}, "x in body should be a multiple of 2"),
        ("", {"type": "string", "minLength": 1}, "x in body should be at least 1 chars long"),
        ("abc", {"type": "string", "maxLength": 2}, "Too long: may not be more than 2 bytes"),
        ("today", {"type": "string", "format": "date-time"}, "must be of type date-time"),
        ([], {"type": "array", "items": TEXT, "minItems": 1}, "should have at least 1 items"),
        (["a", "b"], {"type": "array", "items": TEXT, "maxItems": 1}, "Too many: 2: must have at most 1 items"),
        (["a", "a"], {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}, 'x[1]: Duplicate value: "a"'),
        ({}, schema(a=TEXT) | {"required": ["a"]}, "x.a: Required value"),
        ({"a": 1}, {"type": "object", "additionalProperties": TEXT}, "x[a]: Invalid value"),
        ("a\n", {"type": "string", "pattern": "^a$"}, "x in body should match '^a$'"),
        ("٣", {"type": "string", "pattern": r"^\d$"}, r"x in body should match '^\d$'"),
        ("a" * 50 + "b", {"type": "string", "pattern": "(a+)+$"}, "x in body should match '(a+)+$'"),
        ("a" * 10**6, {"type": "string", "pattern": "(a|b){900}"}, "and is too long to be held against it"),
        ("b", {"anyOf": [{"type": "integer"}, {"pattern": "^a"}]}, "must validate at least one schema (anyOf)"),
        ("ab", {"oneOf": [{"pattern": "a"}, {"pattern": "b"}]}, "must validate one and only one schema (oneOf)"),
        ("a", {"not": {"enum": ["a"]}}, "must not validate the schema (not)"),
        (3, {"allOf": [{"minimum": 4}]}, "x in body should be greater than or equal to 4"),
        ({}, {"type": "object", "x-kubernetes-embedded-resource": True}, "x.apiVersion: Required value"),
    ],
)
def test_values_that_a_schema_does_not_allow(value: Any, rules: Any, problem: str) -> None:
    assert any(problem in each for each in problems(value, rules)), problems(value, rules)


@pytest.mark.parametrize(
    ("value", "rules"),
    [
        (None, {"type": "string", "nullable": True}),
        (2.0, {"type": "integer"}),
        ("ab", {"type": "string", "pattern": r"^\pL+\z"}),
        ("80%", {"x-kubernetes-int-or-string": True}),
        (80, {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        ("2026-01-01T00:00:00Z", {"type": "string", "format": "date-time"}),
        ({"a": {"b": 1}}, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        (
            [{"k": 1}, {"k": 2}],
            {
                "type": "array",
                "items": schema(k={"type": "integer"}),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
            },
        ),
    ],
)
def test_values_that_a_schema_allows(value: Any, rules: Any) -> None:
    assert problems(value, rules) == []


def test_unknown_fields_are_left_out_by_name() -> None:
    known = schema(
        spec=schema(
            a=TEXT, list={"type": "array", "items": schema(b=TEXT)}, free={"x-kubernetes-preserve-unknown-fields": True}
        ),
    )
    value: dict[str, Any] = {
        "apiVersion": "v1",
        "metadata": {"name": "g", "labels": {"x": "y"}},
        "spec": {"a": "1", "c": "2", "list": [{"b": "3", "d": "4"}], "free": {"any": {"thing": 1}}},
        "extra": 1,
    }
    kept, unknown = pruned(value, known)
    assert unknown == ("spec.c", "spec.list[0].d", "extra")
    assert kept["spec"] == {"a": "1", "list": [{"b": "3"}], "free": {"any": {"thing": 1}}}
    assert kept["metadata"] == value["metadata"]


def test_defaults_are_filled_in_where_there_is_a_place_for_them() -> None:
    rules = schema(
        spec=schema(a=TEXT | {"default": "x"}, inner=schema(b={"type": "integer", "default": 2}) | {"default": {}}),
        list={"type": "array", "items": schema(c=TEXT | {"default": "y"})},
        other=schema(d=TEXT | {"default": "z"}),
    )
    value: dict[str, Any] = {"metadata": {"name": "g"}, "spec": {"a": None}, "list": [{}, {"c": "own"}]}
    assert defaulted(value, rules) == {
        "metadata": {"name": "g"},
        "spec": {"a": "x", "inner": {"b": 2}},
        "list": [{"c": "y"}, {"c": "own"}],
    }


DATED = schema(
    born={"type": "string", "format": "date"},
    n={"type": "integer", "format": "int32"},
    dens={
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": schema(name=TEXT, at={"type": "string", "format": "ipv4"}),
    },
)


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        ({"born": "long ago", "dens": [{"name": "b", "at": "there"}, {"name": "a", "at": "here"}], "n": 1}, []),
        ({"born": "today", "n": 1}, ["born"]),
        ({"born": "long ago", "n": True}, ["n"]),
        ({"born": "long ago", "dens": [{"name": "a", "at": "where"}]}, ["dens[0].at"]),
        ({"born": "long ago", "dens": [{"name": "c", "at": "here"}]}, ["dens[0].at"]),
    ],
)
def test_what_is_as_it_was_before_a_schema_changed_may_stay(value: Any, fields: list[str]) -> None:
    before = {"born": "long ago", "dens": [{"name": "a", "at": "here"}, {"name": "b", "at": "there"}], "n": 1}
    assert [each.field for each in value_problems(value, DATED, before)] == fields
    assert {each.field for each in value_problems(before, DATED)} == {"born", "dens[0].at", "dens[1].at"}


def test_a_schema_may_restrict_names() -> None:
    rules = schema(metadata=schema(name={"type": "string", "maxLength": 3}, generateName={"type": "string"}))
    value: dict[str, Any] = {"metadata": {"name": "gopher", "labels": {"a": "b"}}}
    assert [each.field for each in value_problems(value, rules)] == ["metadata.name"]
    assert list(value_problems({"metadata": {"name": "go"}}, rules)) == []
