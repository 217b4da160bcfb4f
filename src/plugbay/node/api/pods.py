"""Pods: listed, watched, made and deleted."""

from __future__ import annotations

from plugbay.errors import PodNotFound
from plugbay.model.pods import Pod
from plugbay.node.api.selection import PodSelection
from plugbay.node.api.watches import is_watch, watch_response
from plugbay.node.engine import PodEngine
from plugbay.node.manifest import pod_from_v1
from plugbay.node.objects import list_object, pod_object
from plugbay.node.pods import PodTable
from plugbay.node.records import PodRecord
from plugbay.node.status import Json
from plugbay.ops.routing import HttpError, Request, Response, StreamResponse, json_response


class PodRoutes:
    def __init__(self, engine: PodEngine, pods: PodTable, *, runtime: str) -> None:
        self._engine = engine
        self._pods = pods
        self._runtime = runtime

    async def list(self, request: Request) -> Response | StreamResponse:
        selection = PodSelection(request)
        if is_watch(request):
            return watch_response(self._pods.watch(), seen=selection.seen, shown=self._shown)
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
        record = await self._engine.delete(namespace, name, grace_s=whole_number(request, "gracePeriodSeconds"))
        return json_response(self._shown(record))

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


def whole_number(request: Request, key: str) -> int | None:
    """A query parameter; None when it is not given.

    Raises:
        HttpError: 400, when it is not a whole number.
    """
    text = request.query.get(key)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise HttpError(400, "BadRequest", f"{key} wants a whole number, found {text!r}")
    return int(text)


def pod_of(pods: PodTable, request: Request) -> PodRecord:
    """The pod a request names.

    Raises:
        PodNotFound: there is none.
    """
    return pods.named(request.params["namespace"], request.params["name"])
