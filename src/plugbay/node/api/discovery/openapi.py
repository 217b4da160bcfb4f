"""The API described in OpenAPI v3, by which clients explain fields and learn what the server checks. Pure.

Source: Kubernetes 1.36 ``api/openapi-spec/v3``; ``kube-openapi/pkg/handler3``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, assert_never

from plugbay.documents import Json
from plugbay.manifest.shapes import (
    Amount,
    Anything,
    Flag,
    ListOf,
    MapOf,
    Shape,
    Support,
    Table,
    Text,
    Whole,
    WholeOrText,
)
from plugbay.node.api.resources import ApiResource, ResourceTable
from plugbay.node.api.writing.patches import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from plugbay.objects.strategic_merge import REPLACED, MergeRule

_ANY: Final[Json] = {"x-kubernetes-preserve-unknown-fields": True}
_GVK: Final = "x-kubernetes-group-version-kind"
_METHODS: Final = {"get": "get", "list": "get", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}
_WRITES: Final = ("dryRun", "fieldManager", "fieldValidation")
_QUERY: Final = {
    "list": ("allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "watch"),
    "create": _WRITES,
    "update": _WRITES,
    "patch": (*_WRITES, "force"),
    "delete": ("dryRun", "gracePeriodSeconds", "propagationPolicy"),
}


def openapi_index(resources: ResourceTable) -> Json:
    """The answer to ``/openapi/v3``: where the document of each version of a group is."""
    bases = sorted({each.base for each in resources})
    return {"paths": {base.lstrip("/"): {"serverRelativeURL": _address(resources, base)} for base in bases}}


def openapi_document(resources: ResourceTable, base: str) -> Json:
    """The document of one version of a group, such as that of ``/api/v1``."""
    members = [each for each in resources if each.base == base]
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.0"},
        "paths": {path: item for each in members for path, item in _paths(each)},
        "components": {"schemas": {_name(each): _schema(each) for each in members}},
    }


def _address(resources: ResourceTable, base: str) -> str:
    digest = hashlib.sha256(json.dumps(openapi_document(resources, base)).encode()).hexdigest()
    return f"/openapi/v3{base}?hash={digest[:32].upper()}"


def _name(resource: ApiResource) -> str:
    return f"io.k8s.api.{resource.group or 'core'}.{resource.version}.{resource.kind}"


def _gvk(resource: ApiResource) -> Json:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _schema(resource: ApiResource) -> Json:
    if resource.described is not None:
        return resource.described | {_GVK: [_gvk(resource)]}
    known = resource.schema
    schema: Json = {"type": "object", **_ANY} if known is None else _of_shape(known, resource.merging or REPLACED)
    return schema | {"description": f"A {resource.kind} of this node.", _GVK: [_gvk(resource)]}


def _of_shape(shape: Shape, rule: MergeRule = REPLACED) -> Json:
    match shape:
        case Text(choices):
            return {"type": "string"} | ({"enum": list(choices)} if choices else {})
        case Flag():
            return {"type": "boolean"}
        case Whole():
            return {"type": "integer"}
        case WholeOrText():
            return {"x-kubernetes-int-or-string": True}
        case Amount():
            return {"oneOf": [{"type": "string"}, {"type": "number"}]}
        case Anything():
            return dict(_ANY)
        case ListOf(item):
            return {"type": "array", "items": _of_shape(item, MergeRule(fields=rule.fields))} | _merging(rule)
        case MapOf(value):
            return {"type": "object", "additionalProperties": _of_shape(value)}
        case Table(fields):
            properties = {
                name: _of_shape(field.shape, rule.fields.get(name, REPLACED))
                | ({"description": "Refused by this node."} if field.support is Support.UNSUPPORTED else {})
                for name, field in sorted(fields.items())
            }
            return {"type": "object", "properties": properties}
        case _:
            assert_never(shape)


def _merging(rule: MergeRule) -> Json:
    if rule.key:
        return {"x-kubernetes-patch-merge-key": rule.key, "x-kubernetes-patch-strategy": "merge"}
    return {"x-kubernetes-patch-strategy": "merge"} if rule.is_set else {}


def _paths(resource: ApiResource) -> Iterator[tuple[str, Json]]:
    all_of_them = f"{resource.base}/{resource.plural}"
    named = all_of_them
    if resource.is_namespaced:
        yield all_of_them, _operations(resource, ("list",))
        named = f"{resource.base}/namespaces/{{namespace}}/{resource.plural}"
    yield named, _operations(resource, ("list", "create"))
    yield f"{named}/{{name}}", _operations(resource, ("get", "update", "patch", "delete"))


def _operations(resource: ApiResource, verbs: Iterable[str]) -> Json:
    return {_METHODS[verb]: _operation(resource, verb) for verb in verbs if verb in resource.verbs}


def _operation(resource: ApiResource, verb: str) -> Json:
    reference = {"schema": {"$ref": f"#/components/schemas/{_name(resource)}"}}
    answer: Json = {"description": "OK", "content": {"application/json": {} if verb == "list" else reference}}
    operation: Json = {
        "operationId": f"{verb}{resource.kind}",
        "x-kubernetes-action": verb,
        _GVK: _gvk(resource),
        "parameters": [{"name": name, "in": "query", "schema": {"type": "string"}} for name in _QUERY.get(verb, ())],
        "responses": {"200": answer},
    }
    patches = (JSON_PATCH, MERGE_PATCH) + (() if resource.merging is None else (STRATEGIC_MERGE_PATCH,))
    bodies: dict[str, Any] = {
        "create": {"application/json": reference},
        "update": {"application/json": reference},
        "patch": {kind: {} for kind in patches},
    }
    if verb in bodies:
        operation["requestBody"] = {"content": bodies[verb]}
    return operation
