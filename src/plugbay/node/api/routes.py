"""Which request is answered by what."""

from __future__ import annotations

from plugbay.errors import (
    ContainerNotFound,
    ImmutablePod,
    InvalidManifest,
    PlugbayError,
    PodExists,
    PodNotFound,
    StoreUnusable,
    UsageError,
)
from plugbay.model.selectors import parse_selector, selects
from plugbay.node.api.containers import ContainerRoutes
from plugbay.node.api.devices import DeviceView, devices_object
from plugbay.node.api.events import EventRoutes
from plugbay.node.api.pods import PodRoutes
from plugbay.node.api.watches import is_watch, state_lines
from plugbay.node.engine import PodEngine
from plugbay.node.objects import NodeFacts, Resources, list_object, node_labels, node_object
from plugbay.node.parts import NodeParts
from plugbay.node.status import Json
from plugbay.ops.routing import (
    JSON,
    Answer,
    Handler,
    HttpError,
    Request,
    Response,
    Router,
    StreamResponse,
    json_response,
)
from plugbay.ops.slices import joined, json_pieces

_PODS = "/api/v1/namespaces/{namespace}/pods"
_POD = f"{_PODS}/{{name}}"


def control_router(engine: PodEngine, parts: NodeParts, *, view: DeviceView, facts: NodeFacts) -> Router:
    """All routes of the control socket."""
    pods = PodRoutes(engine, parts.pods, runtime=parts.runtime.name)
    containers = ContainerRoutes(parts.pods, parts.runtime, parts.clock)
    events = EventRoutes(parts.events)
    node = _NodeRoutes(engine, parts, view=view, facts=facts)
    router = Router()
    for method, template, handler in (
        ("GET", "/api/v1/pods", pods.list),
        ("GET", _PODS, pods.list),
        ("POST", _PODS, pods.create),
        ("GET", _POD, pods.get),
        ("PUT", _POD, pods.put),
        ("DELETE", _POD, pods.delete),
        ("GET", f"{_POD}/log", containers.log),
        ("POST", f"{_POD}/exec", containers.exec),
        ("GET", "/api/v1/events", events.list),
        ("GET", "/api/v1/namespaces/{namespace}/events", events.list),
        ("GET", "/api/v1/nodes", node.list),
        ("GET", "/api/v1/nodes/{name}", node.get),
        ("GET", "/plugbay/v1/devices", node.devices),
        ("POST", "/plugbay/v1/cordon", node.cordon),
        ("POST", "/plugbay/v1/drain", node.drain),
        ("POST", "/plugbay/v1/uncordon", node.uncordon),
        ("GET", "/healthz", _healthz),
    ):
        router.add(method, template, _translated(handler))
    return router


class _NodeRoutes:
    def __init__(self, engine: PodEngine, parts: NodeParts, *, view: DeviceView, facts: NodeFacts) -> None:
        self._engine = engine
        self._parts = parts
        self._view = view
        self._facts = facts

    async def list(self, request: Request) -> Response | StreamResponse:
        selector = parse_selector(request.query.get("labelSelector", ""))

        def selected() -> Json | None:
            return self._node() if selects(selector, node_labels(self._facts)) else None

        if is_watch(request):
            return StreamResponse(state_lines(self._parts.changes, selected), content_type=JSON)
        node = selected()
        return json_response(list_object("NodeList", [] if node is None else [node]))

    async def get(self, request: Request) -> Response:
        name = request.params["name"]
        if name != self._facts.name:
            raise HttpError(404, "NotFound", f'nodes "{name}" not found')
        return json_response(self._node())

    async def devices(self, request: Request) -> Response:
        shown = await joined(json_pieces(devices_object(self._view, self._parts.pods)))
        return Response(body=shown.encode() + b"\n", content_type=JSON)

    async def cordon(self, request: Request) -> Response:
        await self._engine.cordon()
        return json_response(self._node())

    async def drain(self, request: Request) -> Response:
        """The pods are on their way out when this is answered."""
        await self._engine.drain(grace_s=_grace_s(request))
        return json_response(self._node())

    async def uncordon(self, request: Request) -> Response:
        await self._engine.uncordon()
        return json_response(self._node())

    def _node(self) -> Json:
        counts = self._view.resources()
        capacity = {name: count.capacity for name, count in counts.items()}
        allocatable = {name: count.allocatable for name, count in counts.items()}
        return node_object(
            self._facts,
            Resources(capacity, allocatable),
            cordoned_since=self._parts.cordon.since,
            runtime=self._parts.runtime_health,
        )


def _grace_s(request: Request) -> int | None:
    """``{"gracePeriodSeconds": N}`` or nothing: each pod's own grace period."""
    body = request.json() if request.body else {}
    grace_s = body.get("gracePeriodSeconds") if isinstance(body, dict) else body
    if grace_s is not None and (isinstance(grace_s, bool) or not isinstance(grace_s, int) or grace_s < 0):
        raise HttpError(400, "BadRequest", 'the body wants {"gracePeriodSeconds": SECONDS}, or nothing')
    return grace_s


async def _healthz(request: Request) -> Response:
    return Response(body=b"ok")


def _translated(handler: Handler) -> Handler:
    """Our errors as the API server's."""

    async def answer(request: Request) -> Answer:
        try:
            return await handler(request)
        except PlugbayError as error:
            raise _http_error(error) from error

    return answer


def _http_error(error: PlugbayError) -> HttpError:
    match error:
        case PodNotFound():
            return HttpError(404, "NotFound", str(error))
        case PodExists():
            return HttpError(409, "AlreadyExists", str(error))
        case InvalidManifest() | ImmutablePod():
            return HttpError(422, "Invalid", str(error))
        case ContainerNotFound() | UsageError():
            return HttpError(400, "BadRequest", str(error))
        case StoreUnusable():
            return HttpError(507, "InternalError", str(error))
        case _:
            return HttpError(500, "InternalError", str(error))
