"""Pods: made, changed and deleted."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

from plugbay.documents import Json
from plugbay.errors import PodNotFound
from plugbay.manifest import pod_from_v1
from plugbay.model.pods import Pod
from plugbay.node.api.objects import pod_object
from plugbay.node.api.parameters import is_rehearsal
from plugbay.node.api.reading.collection import Collection
from plugbay.node.api.reading.forms import list_body
from plugbay.node.api.reading.selection import ItemSelection
from plugbay.node.api.resources import PODS
from plugbay.node.api.stored.writing import ObjectWriter
from plugbay.node.api.writing.bodies import body_of
from plugbay.node.api.writing.delete_options import delete_options
from plugbay.node.api.writing.patches import patched
from plugbay.node.api.writing.pod_conditions import check_only_conditions, conditions_in
from plugbay.node.api.writing.preconditions import check_same, check_version
from plugbay.objects import merge_rules
from plugbay.ops.routing import JSON, HttpError, Request, Response, json_response
from plugbay.pods.engine import PodEngine
from plugbay.pods.record import PodRecord
from plugbay.pods.store.table import PodTable
from plugbay.printers import v1


class PodRoutes:
    def __init__(
        self, engine: PodEngine, pods: PodTable, collection: Collection, writer: ObjectWriter, *, runtime: str
    ) -> None:
        self._engine = engine
        self._pods = pods
        self._collection = collection
        self._writer = writer
        self._runtime = runtime

    async def create(self, request: Request) -> Response:
        pod = _pod_in(request)
        self._writer.check_namespace(PODS, pod.namespace, pod.name)
        made = self._engine.rehearse_create(pod) if is_rehearsal(request) else await self._engine.create(pod)
        return json_response(self._shown(made), status=201)

    async def put(self, request: Request) -> Response:
        """Create the pod or change what may be changed; a resource version that stays tells that nothing did."""
        name = request.params["name"]
        wanted = _pod_in(request)
        if wanted.name != name:
            problem = f"the name of the object ({wanted.name}) does not match the name on the URL ({name})"
            raise HttpError(400, "BadRequest", problem)
        try:
            record = self._pods.named(wanted.namespace, name)
        except PodNotFound:
            return await self.create(request)
        check_version(PODS, self._shown(record), body_of(request))
        if record.deletion is not None:
            raise HttpError(409, "Conflict", f'object is being deleted: pods "{name}" already exists')
        if is_rehearsal(request):
            return json_response(self._shown(self._engine.rehearse_update(record, wanted)))
        return json_response(self._shown(await self._engine.update(record, wanted)))

    async def patch(self, request: Request) -> Response:
        """Change the pod as a patch says; a patch that names a resource version is for that one only."""
        record = pod_of(self._pods, request)
        value = patched(self._shown(record), request, merge_rules.POD)
        check_same(PODS, self._shown(record), value)
        wanted = _read_pod(value, request)
        if is_rehearsal(request):
            return json_response(self._shown(self._engine.rehearse_update(record, wanted)))
        return json_response(self._shown(await self._engine.update(record, wanted)))

    async def get_status(self, request: Request) -> Response:
        return json_response(self._shown(pod_of(self._pods, request)))

    async def patch_status(self, request: Request) -> Response:
        record = pod_of(self._pods, request)
        shown = self._shown(record)
        value = patched(shown, request, merge_rules.POD)
        check_only_conditions(shown, value)
        return await self._set_status(record, value, request)

    async def put_status(self, request: Request) -> Response:
        value = body_of(request)
        if not isinstance(value, dict):
            raise HttpError(400, "BadRequest", "the body must be a Pod")
        return await self._set_status(pod_of(self._pods, request), value, request)

    async def _set_status(self, record: PodRecord, value: Json, request: Request) -> Response:
        """Keep the conditions that clients set, which are all of the status that is not the node's."""
        check_version(PODS, self._shown(record), value)
        conditions = conditions_in(value)
        if is_rehearsal(request):
            return json_response(self._shown(replace(record, conditions=conditions)))
        return json_response(self._shown(await self._engine.set_conditions(record, conditions)))

    async def evict(self, request: Request) -> Response:
        """Delete the pod, as an Eviction asks for it; there are no disruption budgets that could forbid it."""
        eviction = body_of(request)
        options = eviction.get("deleteOptions") if isinstance(eviction, dict) else None
        name = request.params["name"]
        if not isinstance(eviction, dict) or v1.name(eviction) not in ("", name):
            raise HttpError(400, "BadRequest", f"the body must be an Eviction of the pod {name}")
        body = json.dumps(options or {}).encode()
        await self.delete(replace(request, body=body, headers={}))
        return json_response({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}, status=201)

    async def delete_collection(self, request: Request) -> Response:
        """Delete all pods that the request selects; the answer is their list."""
        selection = ItemSelection(request, PODS)
        options = delete_options(request)
        items = [item for item in self._collection.all() if selection.holds(item)]
        for item in items:
            if not options.is_rehearsal:
                with suppress(PodNotFound):  # it has gone by itself meanwhile
                    await self._engine.delete(item.namespace, item.name, grace_s=options.grace_s)
        metadata: Json = {"resourceVersion": str(self._collection.version)}
        return Response(body=list_body(PODS, items, metadata), content_type=JSON)

    async def delete(self, request: Request) -> Response:
        namespace, name = request.params["namespace"], request.params["name"]
        options = delete_options(request)
        before = self._shown(self._pods.named(namespace, name))
        options.check(PODS, before)
        if options.is_rehearsal:
            return json_response(before)
        return json_response(self._shown(await self._engine.delete(namespace, name, grace_s=options.grace_s)))

    def _shown(self, record: PodRecord) -> Json:
        return pod_object(record, runtime=self._runtime)


def _pod_in(request: Request) -> Pod:
    """The pod in the body of a request.

    Raises:
        HttpError, InvalidManifest: it is none, or of another namespace than the request's.
    """
    return _read_pod(body_of(request), request)


def _read_pod(value: object, request: Request) -> Pod:
    namespace = request.params["namespace"]
    pod = pod_from_v1(_in_namespace(value, namespace))
    if pod.namespace != namespace:
        problem = "the namespace of the provided object does not match the namespace sent on the request"
        raise HttpError(400, "BadRequest", problem)
    return pod


def _in_namespace(value: object, namespace: str) -> object:
    """The request's namespace counts for a pod that names none. Typed clients leave out that it is a Pod of v1."""
    if isinstance(value, dict) and isinstance(metadata := value.get("metadata"), dict):
        return {"apiVersion": "v1", "kind": "Pod", **value, "metadata": {"namespace": namespace, **metadata}}
    return value


def pod_of(pods: PodTable, request: Request) -> PodRecord:
    """The pod a request names.

    Raises:
        PodNotFound: there is none.
    """
    return pods.named(request.params["namespace"], request.params["name"])
