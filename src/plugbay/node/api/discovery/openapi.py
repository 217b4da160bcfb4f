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
from plugbay.node.api import parameters
from plugbay.node.api.parameters import Parameters
from plugbay.node.api.resources import SCALE, ApiResource, ResourceTable, Subresource
from plugbay.node.api.writing.patches import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from plugbay.objects.messages.fields import object_table
from plugbay.objects.strategic_merge import REPLACED, MergeRule
from plugbay.ops.routing import JSON

_ANY: Final[Json] = {"x-kubernetes-preserve-unknown-fields": True}
_GVK: Final = "x-kubernetes-group-version-kind"
_STATUS: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
_SCALE: Final = "io.k8s.api.autoscaling.v1.Scale"
_PARTS: Final = ("status", SCALE.name)
"""The subresources that are described: those that take and give objects like any other."""
_METHODS: Final = {
    "get": "get",
    "list": "get",
    "create": "post",
    "update": "put",
    "patch": "patch",
    "delete": "delete",
    "deletecollection": "delete",
}
_SUCCESSES: Final = {"create": (200, 201, 202), "update": (200, 201), "patch": (200, 201), "delete": (200, 202)}
"""The codes of answers to what is done; 200 for other verbs."""
_TYPES: Final = {
    **dict.fromkeys(("allowWatchBookmarks", "force", "orphanDependents", "sendInitialEvents", "watch"), "boolean"),
    **dict.fromkeys(("gracePeriodSeconds", "limit", "timeoutSeconds"), "integer"),
}
"""The types of parameters that are not strings."""


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
        "components": {"schemas": dict(sorted(_schemas(members)))},
    }


def _schemas(members: Iterable[ApiResource]) -> Iterator[tuple[str, Json]]:
    yield _STATUS, _status_schema()
    for each in members:
        yield _name(each), _schema(each)
        if "list" in each.verbs:
            yield f"{_name(each)}List", _list_schema(each)
        if SCALE in each.subresources:
            group = {"group": SCALE.group, "version": SCALE.version, "kind": SCALE.kind}
            yield _SCALE, _of_shape(object_table(f"{SCALE.group}/{SCALE.version}", SCALE.kind)) | {_GVK: [group]}


def _list_schema(resource: ApiResource) -> Json:
    items = {"type": "array", "items": {"$ref": f"#/components/schemas/{_name(resource)}"}}
    properties: Json = {"kind": {"type": "string"}, "apiVersion": {"type": "string"}, "metadata": {"type": "object"}}
    group = _gvk(resource) | {"kind": f"{resource.kind}List"}
    return {"type": "object", "required": ["items"], "properties": properties | {"items": items}, _GVK: [group]}


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


def _status_schema() -> Json:
    texts = ("kind", "apiVersion", "status", "message", "reason")
    properties: Json = {name: {"type": "string"} for name in texts}
    properties |= {"metadata": {"type": "object"}, "details": {"type": "object", **_ANY}, "code": {"type": "integer"}}
    group = {"group": "", "version": "v1", "kind": "Status"}
    return {"type": "object", "required": ["kind", "apiVersion", "status"], "properties": properties, _GVK: [group]}


def _paths(resource: ApiResource) -> Iterator[tuple[str, Json]]:
    all_of_them = f"{resource.base}/{resource.plural}"
    named = all_of_them
    if resource.is_namespaced:
        yield all_of_them, _item(resource, all_of_them, ("list",))
        named = f"{resource.base}/namespaces/{{namespace}}/{resource.plural}"
    yield named, _item(resource, named, ("list", "create", "deletecollection"))
    yield f"{named}/{{name}}", _item(resource, f"{named}/{{name}}", ("get", "update", "patch", "delete"))
    for part in resource.subresources:
        if part.name in _PARTS:
            where = f"{named}/{{name}}/{part.name}"
            yield where, _item(resource, where, part.verbs, part)


def _item(resource: ApiResource, path: str, verbs: Iterable[str], part: Subresource | None = None) -> Json:
    """The operations at a path, and the parameters of the path itself."""
    names = [name.strip("{}") for name in path.split("/") if name.startswith("{")]
    places = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    known = resource.verbs if part is None else part.verbs
    operations = {_METHODS[verb]: _operation(resource, path, verb, part) for verb in verbs if verb in known}
    return operations | ({"parameters": places} if places else {})


def _operation(resource: ApiResource, path: str, verb: str, part: Subresource | None) -> Json:
    name = _SCALE if part is not None and part.name == SCALE.name else _name(resource)
    reference = _reference(name)
    answered = {"list": _reference(f"{name}List"), "delete": {}, "deletecollection": {}}.get(verb, reference)
    success: Json = {"description": "It is done, and this is the answer.", "content": {JSON: answered}}
    failure: Json = {"description": "It is not done, and the status says why.", "content": {JSON: _reference(_STATUS)}}
    operation: Json = {
        "operationId": _operation_id(resource, path, verb, part),
        "x-kubernetes-action": verb,
        _GVK: _gvk(resource),
        "parameters": [_parameter(name) for name in _known(verb)],
        "responses": {**{str(code): success for code in _SUCCESSES.get(verb, (200,))}, "default": failure},
    }
    patches = (JSON_PATCH, MERGE_PATCH) + (() if resource.merging is None else (STRATEGIC_MERGE_PATCH,))
    bodies: dict[str, Any] = {
        "create": {JSON: reference},
        "update": {JSON: reference},
        "patch": {kind: {} for kind in patches},
    }
    if verb in bodies:
        operation["requestBody"] = {"required": True, "content": bodies[verb]}
    return operation


def _reference(name: str) -> Json:
    return {"schema": {"$ref": f"#/components/schemas/{name}"}}


def _operation_id(resource: ApiResource, path: str, verb: str, part: Subresource | None) -> str:
    """A name that no other operation has, made as an API server makes it: ``patchAppsV1NamespacedDeploymentScale``."""
    group = "".join(word.capitalize() for word in (resource.group or "core").partition(".k8s.io")[0].split("."))
    place = "Namespaced" if "{namespace}" in path else ""
    everywhere = "ForAllNamespaces" if resource.is_namespaced and not place else ""
    inner = part.name.capitalize() if part is not None else ""
    return f"{verb}{group}{resource.version.capitalize()}{place}{resource.kind}{inner}{everywhere}"


def _known(verb: str) -> Iterable[str]:
    """The parameters that a request may have."""
    of_verb: dict[str, Parameters] = {
        "get": parameters.GET,
        "list": parameters.LIST,
        "create": parameters.WRITE,
        "update": parameters.WRITE,
        "patch": parameters.PATCH,
        "delete": parameters.DELETE,
        "deletecollection": parameters.DELETE_COLLECTION,
    }
    return sorted(of_verb[verb])


def _parameter(name: str) -> Json:
    return {"name": name, "in": "query", "schema": {"type": _TYPES.get(name, "string")}}
