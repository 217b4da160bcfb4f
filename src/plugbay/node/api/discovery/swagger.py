"""The API described in OpenAPI v2, by which kubectl before 1.27 checks manifests and explains fields. Pure.

It is one document, made of those in v3; what only v3 can say is left out.

Source: Kubernetes 1.36 ``apiextensions-apiserver/pkg/controller/openapi/v2/conversion.go``;
``kube-openapi/pkg/util/proto/document.go``, which refuses the whole document for one field of two types.
"""

from __future__ import annotations

from typing import Final

from plugbay.documents import Json
from plugbay.node.api.discovery.openapi import openapi_document
from plugbay.node.api.resources import ResourceTable
from plugbay.printers import v1

_REFERENCE: Final = "#/components/schemas/"
_DEFINITION: Final = "#/definitions/"
_PRESERVED: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_KEPT: Final = ("description", "enum", "format", "required", "title", "type")
_EXTENSION: Final = "x-kubernetes-"
_TYPES: Final = frozenset({"array", "boolean", "integer", "number", "object", "string"})


def swagger_document(resources: ResourceTable) -> Json:
    """The answer to ``/openapi/v2``."""
    documents = [openapi_document(resources, base) for base in sorted({each.base for each in resources})]
    return {
        "swagger": "2.0",
        "info": v1.mapping(documents[0], "info"),
        "paths": {
            path: {method: _operation(each) for method, each in _members(item).items()}
            for document in documents
            for path, item in _members(document, "paths").items()
        },
        "definitions": {
            name: swagger_schema(each)
            for document in documents
            for name, each in _members(document, "components", "schemas").items()
        },
    }


def swagger_schema(schema: Json) -> Json:
    """A schema of v3 in the words of v2: anything goes where v2 has none."""
    if "$ref" in schema:
        return {"$ref": v1.text(schema, "$ref").replace(_REFERENCE, _DEFINITION)}
    kept = {name: each for name, each in schema.items() if name in _KEPT or name.startswith(_EXTENSION)}
    if schema.get(_INT_OR_STRING) is True:
        return kept | {"type": "string", "format": "int-or-string"}
    if "oneOf" in schema and "type" not in schema:
        return kept | {"type": "string"}  # a quantity; numbers are taken for strings
    if schema.get("nullable") is True or kept.get("type", "") not in _TYPES:
        return {name: each for name, each in kept.items() if name not in ("enum", "format", "required", "type")}
    if schema.get(_PRESERVED) is True:
        return {name: each for name, each in kept.items() if name != "required"}
    if kept["type"] == "array":
        return kept | {"items": swagger_schema(v1.mapping(schema, "items"))}
    if properties := _members(schema, "properties"):
        kept["properties"] = {name: swagger_schema(each) for name, each in properties.items()}
    elif isinstance(values := schema.get("additionalProperties"), dict):
        kept["additionalProperties"] = swagger_schema(values)
    return kept


def _members(value: Json, *path: str) -> dict[str, Json]:
    """The members of a mapping of mappings."""
    members = v1.mapping(value, *path) if path else value
    return {name: each for name, each in members.items() if isinstance(each, dict)}


def _operation(operation: Json) -> Json:
    parameters: list[Json] = [
        {"name": v1.text(each, "name"), "in": "query", "type": "string"} for each in v1.objects(operation, "parameters")
    ]
    if bodies := v1.mapping(operation, "requestBody", "content"):
        schema = v1.mapping(bodies, "application/json", "schema")
        body = swagger_schema(schema) if schema else {"type": "object"}
        parameters.append({"name": "body", "in": "body", "required": True, "schema": body})
    answer = v1.mapping(operation, "responses", "200")
    response: Json = {"description": v1.text(answer, "description")}
    if schema := v1.mapping(answer, "content", "application/json", "schema"):
        response["schema"] = swagger_schema(schema)
    described: Json = {name: each for name, each in operation.items() if name.startswith(_EXTENSION)}
    return described | {
        "operationId": v1.text(operation, "operationId"),
        **({"consumes": list(bodies)} if bodies else {}),
        "produces": ["application/json"],
        "parameters": parameters,
        "responses": {"200": response},
    }
