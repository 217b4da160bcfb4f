"""The routes of every kind of objects: reading of all kinds, and writing of those that are stored as they are."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from plugbay.documents import Json
from plugbay.node.access.authorization import RBAC
from plugbay.node.access.rights import ClientRights
from plugbay.node.api import parameters
from plugbay.node.api.applying.configurations import apply_configuration, configuration_of, unmatched_uid, unmergeable
from plugbay.node.api.applying.options import is_apply, writer_of
from plugbay.node.api.collections import Collections
from plugbay.node.api.parameters import check_parameters, is_rehearsal
from plugbay.node.api.reading.forms import list_body
from plugbay.node.api.reading.items import ApiItem
from plugbay.node.api.reading.routes import ReadRoutes
from plugbay.node.api.reading.selection import ItemSelection
from plugbay.node.api.refusals import check_problems, no_such_resource, not_allowed, not_found, unreadable
from plugbay.node.api.resources import EVENTS, NEW_EVENTS, SCALE, ApiResource, ResourceTable
from plugbay.node.api.stored.decoding import Decoded, FieldValidation, decoded, field_validation
from plugbay.node.api.stored.events import EventEnds
from plugbay.node.api.stored.scale import ScaleRoutes
from plugbay.node.api.stored.writing import DeletedObject, ObjectWriter
from plugbay.node.api.writing.bodies import body_of, repeated_in
from plugbay.node.api.writing.delete_options import DeleteOptions, delete_options
from plugbay.node.api.writing.patches import patched
from plugbay.node.api.writing.preconditions import check_same
from plugbay.objects.problems import FieldProblem
from plugbay.ops.clock import Clock
from plugbay.ops.routing import JSON, Answer, HttpError, Request, Response
from plugbay.pods.status import timestamp
from plugbay.printers import v1

_NAMED: Final = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_ALL: Final = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_IDENTITY: Final = ("name", "namespace", "resourceVersion", "uid")
_FINALIZE: Final = "finalize"
_WARNING: Final = 256
_WARNING_CHARACTERS: Final = 4096
"""The most characters of one warning, and of all warnings of an answer."""
_WARNINGS: Final = 50
"""Some clients read no more than 100 headers."""
_PARTS: Final = {"GET": "get", "PUT": "update", "PATCH": "patch"}
"""The work on the status or the scale of an object."""


class ResourceRoutes:
    """Answers requests for objects of any kind in the table, as it is when they come.

    Kinds and subresources with handlers of their own have their routes before these.
    """

    PLACES: Final = tuple(
        (method, f"{base}{shape}")
        for base in ("/api/{version}", "/apis/{group}/{version}")
        for shape in (
            "/namespaces/{name}/status",
            "/namespaces/{name}/finalize",
            "/{plural}",
            "/{plural}/{name}",
            "/namespaces/{namespace}/{plural}",
            "/namespaces/{namespace}/{plural}/{name}",
            "/namespaces/{namespace}/{plural}/{name}/{subresource}",
            "/{plural}/{name}/{subresource}",
        )
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
    )
    """The methods and templates that it answers."""

    def __init__(
        self,
        resources: ResourceTable,
        collections: Collections,
        writer: ObjectWriter,
        rights: ClientRights,
        events: EventEnds,
        clock: Clock,
    ) -> None:
        self._resources = resources
        self._collections = collections
        self._writer = writer
        self._rights = rights
        self._events = events
        self._clock = clock

    async def answer(self, request: Request) -> Answer:
        """
        Raises:
            HttpError, PlugbayError: it cannot be done.
        """
        if "plural" not in request.params:
            part = request.path.rpartition("/")[2]
            request = replace(request, params={**request.params, "plural": "namespaces", "subresource": part})
        resource = self._resource(request)
        verb = self._verb(resource, request)
        if request.params.get("subresource") == SCALE.name:
            return await self._answer_scale(resource, verb, request)
        match verb:
            case "get":
                check_parameters(request, parameters.GET)
                return await self._reading(resource).get(request)
            case "list":
                check_parameters(request, parameters.LIST)
                return await self._reading(resource).list(request)
            case "create":
                check_parameters(request, parameters.WRITE)
                return await self._create(resource, request)
            case "update":
                check_parameters(request, parameters.WRITE)
                return await self._update(resource, request)
            case "finalize":
                check_parameters(request, parameters.WRITE)
                return await self._finalize(resource, request)
            case "patch":
                check_parameters(request, parameters.STORED_PATCH)
                return await self._patch(resource, request)
            case "delete":
                check_parameters(request, parameters.DELETE)
                return await self._delete(resource, request)
            case _:
                check_parameters(request, parameters.DELETE_COLLECTION)
                return await self._delete_collection(resource, request)

    def _resource(self, request: Request) -> ApiResource:
        params = request.params
        found = self._resources.find(params.get("group", ""), params["version"], params["plural"])
        if found is None or (not found.is_namespaced and "namespace" in params):
            raise no_such_resource()
        if found.is_namespaced and "namespace" not in params and "name" in params:
            raise no_such_resource()
        return found

    def _verb(self, resource: ApiResource, request: Request) -> str:
        if (subresource := request.params.get("subresource")) is not None:
            verbs = next((each.verbs for each in resource.subresources if each.name == subresource), None)
            if verbs is None:
                raise no_such_resource()
            if subresource == _FINALIZE and request.method == "PUT":
                return _FINALIZE
            verb = _PARTS.get(request.method, "") if subresource in ("status", SCALE.name) else ""
        else:
            verbs = resource.verbs
            verb = (_NAMED if "name" in request.params else _ALL).get(request.method, "")
        if verb not in verbs or (verb not in ("get", "list") and resource.stored is None):
            raise not_allowed()
        if verb == "create" and resource.is_namespaced and "namespace" not in request.params:
            raise not_allowed()
        return verb

    async def _answer_scale(self, resource: ApiResource, verb: str, request: Request) -> Answer:
        scale = ScaleRoutes(resource, self._writer, self._clock)
        return await {"get": scale.get, "update": scale.put, "patch": scale.patch}[verb](request)

    def _reading(self, resource: ApiResource) -> ReadRoutes:
        return ReadRoutes(resource, self._collections[resource], self._clock)

    async def _create(self, resource: ApiResource, request: Request) -> Response:
        wanted = self._decoded(resource, body_of(request), request)
        namespace = request.params.get("namespace", "")
        self._check_rights(resource, None, wanted.value, request)
        made = await self._writer.create(
            resource, wanted.value, namespace=namespace, writer=writer_of(request), rehearsal=is_rehearsal(request)
        )
        return self._answer(resource, made, wanted, request, status=201)

    async def _update(self, resource: ApiResource, request: Request) -> Response:
        wanted = self._decoded(resource, body_of(request), request)
        namespace, name = request.params.get("namespace", ""), request.params["name"]
        assert resource.stored is not None
        try:
            before = self._writer.get(resource, namespace, name)
        except HttpError:
            if not resource.stored.creates_on_update or "subresource" in request.params:
                raise
            return await self._create(resource, request)
        changed = await self._write(resource, before, wanted.value, request)
        return self._answer(resource, changed, wanted, request)

    async def _finalize(self, resource: ApiResource, request: Request) -> Response:
        """Change what a namespace waits for; without any, one that is being deleted goes."""
        wanted = self._decoded(resource, body_of(request), request)
        before = self._writer.get(resource, "", request.params["name"])
        changed = await self._writer.finalize(resource, before, wanted.value, rehearsal=is_rehearsal(request))
        return self._answer(resource, changed, wanted, request)

    async def _patch(self, resource: ApiResource, request: Request) -> Response:
        writer_of(request)  # a bad one is told before a bad patch
        if is_apply(request):
            return await self._apply(resource, request)
        before = self._writer.get(resource, request.params.get("namespace", ""), request.params["name"])
        value = patched(before, request, resource.merging)
        check_same(resource, before, value)
        wanted = decoded(value, resource)
        if wanted.unknown and field_validation(request) is FieldValidation.STRICT:
            problem = FieldProblem(
                "FieldValueInvalid",
                "patch",
                f"Invalid value: {request.body.decode()}: strict decoding error: {', '.join(_remarks(wanted))}",
            )
            check_problems(resource, v1.name(before), [problem])
        changed = await self._write(resource, before, wanted.value, request)
        return self._answer(resource, changed, wanted, request)

    async def _apply(self, resource: ApiResource, request: Request) -> Response:
        """Make the object, or change it, as a configuration says."""
        config = configuration_of(request, resource.kind, resource.api_version)
        decoded(config, resource)  # a value of another type is told before what it would take from others
        namespace = request.params.get("namespace", "")
        before = self._writer.find(resource, namespace, request.params["name"])
        if before is None and "subresource" in request.params:
            raise not_found(resource, request.params["name"])
        if before is None and v1.uid(config):
            raise unmatched_uid(resource.qualified, config)
        if resource.has_status:
            config = _part(config, "subresource" in request.params)
        now = timestamp(self._clock.now())
        value = apply_configuration(before, config, request, writer_of(request), resource.applying, now=now)
        wanted = decoded(value, resource)
        if wanted.unknown:
            raise unmergeable(
                request, config, "\n  ".join(f".{name}: field not declared in schema" for name in wanted.unknown)
            )
        if before is None:
            rehearsal = is_rehearsal(request)
            self._check_rights(resource, None, wanted.value, request)
            made = await self._writer.create(resource, wanted.value, namespace=namespace, rehearsal=rehearsal)
            return self._answer(resource, made, wanted, request, status=201)
        changed = await self._write(resource, before, wanted.value, request)
        return self._answer(resource, changed, wanted, request)

    async def _write(self, resource: ApiResource, before: Json, wanted: Json, request: Request) -> Json:
        self._check_rights(resource, before, wanted, request)
        write = self._writer.update_status if "subresource" in request.params else self._writer.update
        # The managers of what is applied are in it already.
        writer = None if is_apply(request) else writer_of(request)
        return await write(resource, before, wanted, writer=writer, rehearsal=is_rehearsal(request))

    def _check_rights(self, resource: ApiResource, before: Json | None, wanted: Json, request: Request) -> None:
        """Refuse what the client may not do, although it may send such a request."""
        namespace, name = request.params.get("namespace", ""), request.params.get("name", "")
        if before is None and name:
            self._rights.check_creating(
                request.headers, group=resource.group, plural=resource.plural, namespace=namespace, name=name
            )
        if resource.group == RBAC:
            metadata = v1.mapping(wanted, "metadata") | {"namespace": namespace}
            self._rights.check_granting(request.headers, resource.plural, wanted | {"metadata": metadata})

    async def _delete(self, resource: ApiResource, request: Request) -> Response:
        namespace, name = request.params.get("namespace", ""), request.params["name"]
        deleted = await self._end(resource, namespace, name, delete_options(request))
        return Response(body=json.dumps(_told(resource, deleted)).encode() + b"\n", content_type=JSON)

    async def _delete_collection(self, resource: ApiResource, request: Request) -> Response:
        """Delete all objects that the request selects; the answer is their list."""
        selection, options = ItemSelection(request, resource), delete_options(request)
        collection = self._collections[resource]
        items = [item for item in collection.all() if selection.holds(item)]
        last: list[ApiItem] = []
        for item in items:
            if collection.get(item.namespace, item.name) is None:
                continue  # it has gone by itself meanwhile
            deleted = await self._end(resource, item.namespace, item.name, options)
            last.append(ApiItem.of(deleted.value))
        metadata: Json = {"resourceVersion": str(collection.version)}
        return Response(body=list_body(resource, last, metadata), content_type=JSON)

    async def _end(self, resource: ApiResource, namespace: str, name: str, options: DeleteOptions) -> DeletedObject:
        if resource in (EVENTS, NEW_EVENTS):
            return await self._events.delete(resource, namespace, name, options)
        return await self._writer.delete(resource, self._writer.get(resource, namespace, name), options)

    def _decoded(self, resource: ApiResource, body: object, request: Request) -> Decoded:
        found = decoded(body, resource)
        if field_validation(request) is not FieldValidation.IGNORE:
            found = found._replace(repeated=repeated_in(request))
        if (remarks := _remarks(found)) and field_validation(request) is FieldValidation.STRICT:
            raise unreadable(resource, f"strict decoding error: {', '.join(remarks)}")
        return found

    def _answer(
        self, resource: ApiResource, value: Json, wanted: Decoded, request: Request, *, status: int = 200
    ) -> Response:
        warnings: list[str] = []
        if field_validation(request) is FieldValidation.WARN:
            warnings += _remarks(wanted)
        if resource.stored is not None and resource.stored.warning:
            warnings.append(resource.stored.warning)
        if resource.stored is not None:
            warnings += resource.stored.remarks(value)
        shown = value | {"apiVersion": resource.api_version}
        return Response(status, json.dumps(shown).encode() + b"\n", JSON, _warning_headers(warnings))


def _remarks(read: Decoded) -> list[str]:
    """The problems that strict validation refuses."""
    unknown = [f'unknown field "{name}"' for name in read.unknown]
    return unknown + [f'duplicate field "{name}"' for name in read.repeated]


def _part(config: Json, of_status: bool) -> Json:
    """The part of a configuration that counts for the status of an object, or for all but that."""
    counts = ("apiVersion", "kind", "status") if of_status else tuple(name for name in config if name != "status")
    part = {name: each for name, each in config.items() if name in counts}
    if of_status:
        kept = {name: each for name, each in v1.mapping(config, "metadata").items() if name in _IDENTITY}
        part["metadata"] = kept
    return part


def _told(resource: ApiResource, deleted: DeletedObject) -> Json:
    if not deleted.is_gone:
        return deleted.value | {"apiVersion": resource.api_version}
    details: Json = {"name": v1.name(deleted.value), "kind": resource.plural, "uid": v1.uid(deleted.value)}
    if resource.group:
        details["group"] = resource.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _warning_headers(warnings: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """As an API server does, tell no more than clients read of headers.

    Source: RFC 7234, 5.5; apiserver 1.36 ``pkg/endpoints/filters/warning.go``. kubectl shows each.
    """
    told: list[str] = []
    for text in dict.fromkeys(warnings):
        told.append(text if len(text) <= _WARNING else f"{text[: _WARNING - 3]}...")
        if len(told) > _WARNINGS or sum(map(len, told)) > _WARNING_CHARACTERS:
            del told[-1]
            break
    return tuple(("Warning", f"299 - {json.dumps(text)}") for text in told)
