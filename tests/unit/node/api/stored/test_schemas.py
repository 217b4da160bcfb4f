"""Schemas of definitions are structural, or refused as an API server refuses them."""

from __future__ import annotations

from typing import Any

import pytest

from plugbay.node.api.stored.custom.schemas import schema_problems

TEXT = {"type": "string"}


def problems(rules: object) -> list[str]:
    return [str(each) for each in schema_problems({"type": "object", "properties": {"a": rules}}, "S")]


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        (5, "S.properties[a]: Invalid value"),
        ({}, "S.properties[a].type: Required value: must not be empty for specified object fields"),
        ({"type": ["string"]}, "S.properties[a].type: Invalid value"),
        ({"type": "text"}, 'S.properties[a].type: Unsupported value: "text"'),
        ({"type": "string", "minLength": "1"}, "S.properties[a].minLength: Invalid value"),
        ({"type": "object", "required": "b"}, "S.properties[a].required: Invalid value"),
        ({"type": "object", "required": [1]}, "S.properties[a].required[0]: Invalid value"),
        ({"type": "object", "patternProperties": {}}, "S.properties[a].patternProperties: Forbidden"),
        ({"type": "array"}, "S.properties[a].items: Required value: must be specified"),
        ({"type": "array", "items": [TEXT]}, "S.properties[a].items: Invalid value"),
        (
            {"type": "array", "items": {}},
            "S.properties[a].items.type: Required value: must not be empty for specified array items",
        ),
        ({"type": "array", "items": TEXT, "uniqueItems": True}, "S.properties[a].uniqueItems: Forbidden"),
        (
            {"type": "array", "items": TEXT, "x-kubernetes-list-type": "bag"},
            "S.properties[a].x-kubernetes-list-type: Unsupported value",
        ),
        (
            {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"},
            "S.properties[a].x-kubernetes-list-map-keys: Required value",
        ),
        (
            {
                "type": "array",
                "items": {"type": "object", "properties": {"l": TEXT}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
            },
            "entries must all be names of item properties",
        ),
        (TEXT | {"pattern": "("}, "must be a valid regular expression, but isn't: missing ): ("),
        (TEXT | {"pattern": "(?=a)"}, "S.properties[a].pattern: Invalid value"),
        (TEXT | {"allOf": [{"not": {"pattern": "("}}]}, "S.properties[a].allOf[0].not.pattern: Invalid value"),
        (TEXT | {"anyOf": [TEXT]}, "S.properties[a].anyOf[0].type: Forbidden: must be empty to be structural"),
        (TEXT | {"anyOf": [5]}, "S.properties[a].anyOf[0]: Invalid value"),
        (TEXT | {"default": 5}, "S.properties[a].default: Invalid value"),
        (TEXT | {"x-kubernetes-int-or-string": True}, "must be empty if x-kubernetes-int-or-string is true"),
        (TEXT | {"x-kubernetes-preserve-unknown-fields": False}, "must be true or undefined"),
    ],
)
def test_schemas_that_are_not_structural(rules: Any, problem: str) -> None:
    assert any(problem in each for each in problems(rules)), problems(rules)


@pytest.mark.parametrize(
    "rules",
    [
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        {"x-kubernetes-preserve-unknown-fields": True},
        {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        {"type": "object", "additionalProperties": TEXT, "default": {"b": "c"}},
        {"type": "object", "properties": {"b": TEXT}, "oneOf": [{"required": ["b"]}, {"required": ["c"]}]},
        TEXT | {"default": None, "pattern": r"^[a-z]{1,63}\z"},
    ],
)
def test_schemas_that_are(rules: Any) -> None:
    assert problems(rules) == []


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({"type": "object"}, ""),
        ({"type": "object", "properties": {"name": TEXT | {"pattern": "^a"}, "generateName": TEXT}}, ""),
        ({"type": "object", "properties": {"labels": {"type": "object"}}}, "must not specify anything other than name"),
        ({"type": "object", "maxProperties": 3}, "must not specify anything other than name and generateName"),
        ({"type": "string"}, 'S.properties[metadata].type: Invalid value: "string": must be object'),
        (
            {"type": "object", "properties": {"name": TEXT | {"pattern": "("}}},
            "S.properties[metadata].properties[name].pattern: Invalid value",
        ),
    ],
)
def test_a_schema_restricts_nothing_of_metadata_but_names(metadata: object, problem: str) -> None:
    found = [str(each) for each in schema_problems({"type": "object", "properties": {"metadata": metadata}}, "S")]
    assert bool(found) is bool(problem)
    assert problem in " ".join(found)
