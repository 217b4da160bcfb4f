"""The one document of OpenAPI v2 says what kubectl before 1.27 looks for, and nothing that it cannot read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from plugbay.documents import Json
from plugbay.node.api.discovery.gnostic import gnostic_document
from plugbay.node.api.discovery.swagger import swagger_document, swagger_schema
from plugbay.node.api.resources import ResourceTable
from plugbay.node.api.stored.kinds import BUILT_IN

DOCUMENT: Any = swagger_document(ResourceTable(BUILT_IN))
POD: Any = DOCUMENT["definitions"]["io.k8s.api.core.v1.Pod"]


def schemas(schema: Any) -> Iterator[Any]:
    yield schema
    for each in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
        if each is not None:
            yield from schemas(each)


def test_every_kind_is_defined() -> None:
    kinds = [each["x-kubernetes-group-version-kind"] for each in DOCUMENT["definitions"].values()]
    assert [{"group": "apps", "version": "v1", "kind": "Deployment"}] in kinds


def test_every_field_has_one_type_and_every_list_items() -> None:
    for definition in DOCUMENT["definitions"].values():
        for schema in schemas(definition):
            assert isinstance(schema.get("type", ""), str)
            assert ("items" in schema) == (schema.get("type") == "array")
            assert not {"oneOf", "anyOf", "nullable"} & schema.keys()


def test_a_list_tells_how_it_is_merged() -> None:
    containers = POD["properties"]["spec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["items"]["properties"]["resources"]["properties"]["limits"] == {
        "type": "object",
        "additionalProperties": {"type": "string"},
    }


def test_a_patch_of_a_pod_can_be_rehearsed() -> None:
    patch = DOCUMENT["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert {"name": "dryRun", "in": "query", "type": "string"} in patch["parameters"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "Pod"}


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        pytest.param({"type": "string", "nullable": True}, {}, id="null-is-any"),
        pytest.param(
            {"x-kubernetes-int-or-string": True},
            {"x-kubernetes-int-or-string": True, "type": "string", "format": "int-or-string"},
            id="whole-or-text",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {}}, "x-kubernetes-preserve-unknown-fields": True},
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            id="preserved",
        ),
        pytest.param({"$ref": "#/components/schemas/A"}, {"$ref": "#/definitions/A"}, id="reference"),
        pytest.param({"type": "array"}, {"type": "array", "items": {}}, id="list-of-anything"),
    ],
)
def test_what_version_2_cannot_say_is_left_out(schema: Json, wanted: Json) -> None:
    assert swagger_schema(schema) == wanted


def test_the_protobuf_form_is_that_of_gnostic() -> None:
    document: Json = {
        "swagger": "2.0",
        "info": {"title": "K", "version": "v"},
        "paths": {},
        "definitions": {"A": {"type": "object", "properties": {"b": {"type": "string", "enum": ["x"]}}}},
    }
    text = b'\xa2\x01\x05\x12\x03"x"' + b"\xb2\x01\x08\x0a\x06string"
    properties = b"\xca\x01\x1a\x0a\x18\x0a\x01b\x12\x13" + text
    named = b"\x0a\x01A\x12" + bytes([11 + len(properties)]) + b"\xb2\x01\x08\x0a\x06object" + properties
    definitions = b"\x0a" + bytes([len(named)]) + named
    head = b"\x0a\x032.0\x12\x06\x0a\x01K\x12\x01v"
    assert gnostic_document(document) == head + b"\x42\x00\x4a" + bytes([len(definitions)]) + definitions
