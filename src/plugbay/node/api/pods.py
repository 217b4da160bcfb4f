"""Pods: listed, watched, made and deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeGuard

from plugbay.documents import Json
from plugbay.errors import PodNotFound
from plugbay.manifest import pod_from_v1
from plugbay.model.ids import PodUid
from plugbay.model.pods import Pod
from plugbay.node.api.objects import list_object, pod_object
from plugbay.node.api.parameters import is_set, whole_number
from plugbay.node.api.selection import PodSelection
from plugbay.node.api.watches import watch_response
from plugbay.ops.routing import HttpError, Request, Response, StreamResponse, json_response
from plugbay.pods.engine import PodEngine
from plugbay.pods.record import PodRecord
from plugbay.pods.store.table import PodTable
from plugbay.pods.store.watch import Subscription

_DELETE_OPTIONS: Final = ("apiVersion", "kind", "gracePeriodSeconds", "propagationPolicy", "orphanDependents")


class PodRoutes:
    def __init__(self, engine: PodEngine, pods: PodTable, *, runtime: str) -> None:
        self._engine = engine
        self._pods = pods
        self._runtime = runtime

    async def list(self, request: Request) -> Response | StreamResponse:
        selection = PodSelection(request, self._shown)
        if is_set(request, "watch"):
            changes = await self._changes(request, selection)
            return watch_response(changes, request, seen=selection.seen, shown=self._shown)
        items = [self._shown(record) for record in self._pods if selection.holds(record)]
        return json_response(list_object("PodList", items, version=self._pods.version))

    async def get(self, request: Request) -> Response:
        return json_response(self._shown(pod_of(self._pods, request)))

    async def create(self, request: Request) -> Response:
        return json_response(self._shown(await self._engine.create(_pod_in(request))), status=201)

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
            return json_response(self._shown(await self._engine.create(wanted)), status=201)
        if record.deletion is not None:
            raise HttpError(409, "Conflict", f'object is being deleted: pods "{name}" already exists')
        return json_response(self._shown(await self._engine.update(record, wanted)))

    async def delete(self, request: Request) -> Response:
        namespace, name = request.params["namespace"], request.params["name"]
        grace_s = _delete_options(request).get("gracePeriodSeconds", whole_number(request, "gracePeriodSeconds"))
        return json_response(self._shown(await self._engine.delete(namespace, name, grace_s=grace_s)))

    async def _changes(self, request: Request, selection: PodSelection) -> Subscription[PodUid, PodRecord]:
        """The changes that a watch tells: first all pods, unless the client knows them by ``resourceVersion``.

        Raises:
            HttpError: 410, the client does not know the newest state, and the changes since are not kept.
        """
        known = whole_number(request, "resourceVersion")
        changes = self._pods.watch()
        if known and known != self._pods.version:
            problem = f"too old resource version: {known} ({self._pods.version}); list the pods again"
            raise HttpError(410, "Expired", problem)
        if known and any(True for _ in self._pods):
            for change, record in await changes.next():
                selection.seen(change, record)
        return changes

    def _shown(self, record: PodRecord) -> Json:
        return pod_object(record, runtime=self._runtime)


def _pod_in(request: Request) -> Pod:
    """The pod in the body of a request.

    Raises:
        HttpError, InvalidManifest: it is none, or of another namespace than the request's.
    """
    namespace = request.params["namespace"]
    pod = pod_from_v1(_in_namespace(request.json(), namespace))
    if pod.namespace != namespace:
        problem = "the namespace of the provided object does not match the namespace sent on the request"
        raise HttpError(400, "BadRequest", problem)
    return pod


def _in_namespace(value: object, namespace: str) -> object:
    """The request's namespace counts for a pod that names none."""
    if isinstance(value, dict) and isinstance(metadata := value.get("metadata"), dict):
        return {**value, "metadata": {"namespace": namespace, **metadata}}
    return value


def _delete_options(request: Request) -> Mapping[str, int]:
    """Read the body of a deletion, ``DeleteOptions``; only its grace period has an effect here.

    Raises:
        HttpError: 400, the body asks for something that the node does not do.
    """
    options = request.json() if request.body else {}
    if not isinstance(options, dict):
        raise HttpError(400, "BadRequest", "the body must be DeleteOptions, or nothing")
    if refused := sorted(name for name, value in options.items() if name not in _DELETE_OPTIONS and value):
        raise HttpError(400, "BadRequest", f"{', '.join(refused)} in DeleteOptions is not supported")
    grace_s = options.get("gracePeriodSeconds")
    if grace_s is None:
        return {}
    if not is_grace(grace_s):
        raise HttpError(400, "BadRequest", "gracePeriodSeconds in DeleteOptions must be a whole number")
    return {"gracePeriodSeconds": grace_s}


def is_grace(value: object) -> TypeGuard[int]:
    """Whether ``value`` can be a grace period, in seconds; a longer one has no date at its end."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9


def pod_of(pods: PodTable, request: Request) -> PodRecord:
    """The pod a request names.

    Raises:
        PodNotFound: there is none.
    """
    return pods.named(request.params["namespace"], request.params["name"])
