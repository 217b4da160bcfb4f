"""The routes of the control socket."""

from __future__ import annotations

from plugbay.documents import Json
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
from plugbay.manager.manager import DeviceManager
from plugbay.model.selectors import parse_selector, selects
from plugbay.node.api import parameters
from plugbay.node.api.containers import ContainerRoutes
from plugbay.node.api.devices import devices_object
from plugbay.node.api.events import EventRoutes
from plugbay.node.api.field_selectors import NODE_FIELDS, FieldSelector
from plugbay.node.api.objects import NodeFacts, Resources, list_object, node_labels, node_object
from plugbay.node.api.parameters import Parameters, check_parameters, is_set
from plugbay.node.api.pods import PodRoutes, is_grace
from plugbay.node.api.watches import check_unversioned, state_lines, stream
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
from plugbay.pods.engine import PodEngine
from plugbay.pods.node import Node
from plugbay.pods.store.table import PodTable

_PODS = "/api/v1/namespaces/{namespace}/pods"
_POD = f"{_PODS}/{{name}}"


def control_router(pods: PodRoutes, containers: ContainerRoutes, events: EventRoutes, node: NodeRoutes) -> Router:
    """All routes of the control socket."""
    router = Router()
    for method, template, handler, known in (
        ("GET", "/api/v1/pods", pods.list, parameters.LIST),
        ("GET", _PODS, pods.list, parameters.LIST),
        ("POST", _PODS, pods.create, parameters.WRITE),
        ("GET", _POD, pods.get, parameters.GET),
        ("PUT", _POD, pods.put, parameters.WRITE),
        ("DELETE", _POD, pods.delete, parameters.DELETE),
        ("GET", f"{_POD}/log", containers.log, parameters.LOG),
        ("POST", f"{_POD}/exec", containers.exec, parameters.EXEC),
        ("GET", "/api/v1/events", events.list, parameters.EVENTS),
        ("GET", "/api/v1/namespaces/{namespace}/events", events.list, parameters.EVENTS),
        ("GET", "/api/v1/nodes", node.list, parameters.LIST),
        ("GET", "/api/v1/nodes/{name}", node.get, parameters.GET),
        ("GET", "/plugbay/v1/devices", node.devices, parameters.NONE),
        ("POST", "/plugbay/v1/cordon", node.cordon, parameters.NONE),
        ("POST", "/plugbay/v1/drain", node.drain, parameters.NONE),
        ("POST", "/plugbay/v1/uncordon", node.uncordon, parameters.NONE),
        ("GET", "/healthz", _healthz, parameters.NONE),
    ):
        router.add(method, template, _checked(handler, known))
    return router


class NodeRoutes:
    """The routes of the node itself and of its devices."""

    def __init__(
        self, engine: PodEngine, node: Node, pods: PodTable, *, manager: DeviceManager, facts: NodeFacts
    ) -> None:
        self._engine = engine
        self._node = node
        self._pods = pods
        self._manager = manager
        self._facts = facts

    async def list(self, request: Request) -> Response | StreamResponse:
        fields = FieldSelector(request.query.get("fieldSelector", ""), NODE_FIELDS)
        selector = parse_selector(request.query.get("labelSelector", ""))

        def selected() -> Json | None:
            node = self._object()
            return node if fields.holds(node) and selects(selector, node_labels(self._facts)) else None

        if is_set(request, "watch"):
            check_unversioned(request)
            return stream(state_lines(self._node.changes, selected), request)
        node = selected()
        return json_response(list_object("NodeList", [] if node is None else [node]))

    async def get(self, request: Request) -> Response:
        name = request.params["name"]
        if name != self._facts.name:
            raise HttpError(404, "NotFound", f'nodes "{name}" not found')
        return json_response(self._object())

    async def devices(self, request: Request) -> Response:
        shown = await joined(json_pieces(devices_object(self._manager, self._pods)))
        return Response(body=shown.encode() + b"\n", content_type=JSON)

    async def cordon(self, request: Request) -> Response:
        await self._engine.cordon()
        return json_response(self._object())

    async def drain(self, request: Request) -> Response:
        """The pods are on their way out when this is answered."""
        await self._engine.drain(grace_s=_grace_s(request))
        return json_response(self._object())

    async def uncordon(self, request: Request) -> Response:
        await self._engine.uncordon()
        return json_response(self._object())

    def _object(self) -> Json:
        counts = self._manager.resources()
        capacity = {name: count.capacity for name, count in counts.items()}
        allocatable = {name: count.allocatable for name, count in counts.items()}
        return node_object(
            self._facts,
            Resources(capacity, allocatable),
            cordoned_since=self._node.cordoned_since,
            runtime=self._node.runtime_health,
        )


def _grace_s(request: Request) -> int | None:
    """``{"gracePeriodSeconds": N}`` or nothing: each pod's own grace period."""
    body = request.json() if request.body else {}
    grace_s = body.get("gracePeriodSeconds") if isinstance(body, dict) else body
    if grace_s is not None and not is_grace(grace_s):
        raise HttpError(400, "BadRequest", 'the body must be {"gracePeriodSeconds": SECONDS}, or nothing')
    return grace_s


async def _healthz(request: Request) -> Response:
    return Response(body=b"ok")


def _checked(handler: Handler, known: Parameters) -> Handler:
    """``handler`` for requests with no other parameters, its errors as the API server's."""

    async def answer(request: Request) -> Answer:
        check_parameters(request, known)
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
