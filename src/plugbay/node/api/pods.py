"""Pods: made, changed and deleted."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeGuard

from plugbay.documents import Json
from plugbay.errors import PodNotFound
from plugbay.manifest import pod_from_v1
from plugbay.model.pods import Pod
from plugbay.node.api.objects import pod_object
from plugbay.node.api.parameters import is_rehearsal, whole_number
from plugbay.ops.routing import HttpError, Request, Response, json_response
from plugbay.pods.engine import PodEngine
from plugbay.pods.record import PodRecord
from plugbay.pods.store.table import PodTable

_DELETE_OPTIONS: Final = ("apiVersion", "kind", "gracePeriodSeconds", "propagationPolicy", "orphanDependents", "dryRun")


class PodRoutes:
    def __init__(self, engine: PodEngine, pods: PodTable, *, runtime: str) -> None:
        self._engine = engine
        self._pods = pods
        self._runtime = runtime

    async def create(self, request: Request) -> Response:
        pod = _pod_in(request)
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
        if record.deletion is not None:
            raise HttpError(409, "Conflict", f'object is being deleted: pods "{name}" already exists')
        if is_rehearsal(request):
            return json_response(self._shown(self._engine.rehearse_update(record, wanted)))
        return json_response(self._shown(await self._engine.update(record, wanted)))

    async def delete(self, request: Request) -> Response:
        namespace, name = request.params["namespace"], request.params["name"]
        options = _delete_options(request)
        if options.is_rehearsal:
            return json_response(self._shown(self._pods.named(namespace, name)))
        return json_response(self._shown(await self._engine.delete(namespace, name, grace_s=options.grace_s)))

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
    """The request's namespace counts for a pod that names none. Typed clients leave out that it is a Pod of v1."""
    if isinstance(value, dict) and isinstance(metadata := value.get("metadata"), dict):
        return {"apiVersion": "v1", "kind": "Pod", **value, "metadata": {"namespace": namespace, **metadata}}
    return value


class _DeleteOptions(NamedTuple):
    grace_s: int | None
    is_rehearsal: bool


def _delete_options(request: Request) -> _DeleteOptions:
    """Read the address and the body of a deletion, ``DeleteOptions``; the body counts.

    Raises:
        HttpError: 400, the body asks for something that the node does not do.
    """
    options = request.json() if request.body else {}
    if not isinstance(options, dict):
        raise HttpError(400, "BadRequest", "the body must be DeleteOptions, or nothing")
    if refused := sorted(name for name, value in options.items() if name not in _DELETE_OPTIONS and value):
        raise HttpError(400, "BadRequest", f"{', '.join(refused)} in DeleteOptions is not supported")
    rehearsal = options.get("dryRun") or []
    if rehearsal not in ([], ["All"]):
        raise HttpError(400, "BadRequest", 'dryRun in DeleteOptions must be ["All"]')
    grace_s = options.get("gracePeriodSeconds")
    if grace_s is None:
        grace_s = whole_number(request, "gracePeriodSeconds")
    elif not is_grace(grace_s):
        raise HttpError(400, "BadRequest", "gracePeriodSeconds in DeleteOptions must be a whole number")
    return _DeleteOptions(grace_s, bool(rehearsal) or is_rehearsal(request))


def is_grace(value: object) -> TypeGuard[int]:
    """Whether ``value`` can be a grace period, in seconds; a longer one has no date at its end."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9


def pod_of(pods: PodTable, request: Request) -> PodRecord:
    """The pod a request names.

    Raises:
        PodNotFound: there is none.
    """
    return pods.named(request.params["namespace"], request.params["name"])
