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
from plugbay.node.api import parameters
from plugbay.node.api.devices import devices_object
from plugbay.node.api.discovery.routes import DiscoveryRoutes
from plugbay.node.api.node_proxy import DEEPEST, PROXY, NodeProxyRoutes
from plugbay.node.api.objects import NodeFacts, Resources, node_object
from plugbay.node.api.parameters import Parameters, check_parameters, is_rehearsal
from plugbay.node.api.pods import PodRoutes
from plugbay.node.api.reading.compression import compressed
from plugbay.node.api.reading.routes import not_found
from plugbay.node.api.resources import NODES, PODS
from plugbay.node.api.stored.accounts.routes import AccountRoutes
from plugbay.node.api.stored.routes import ResourceRoutes
from plugbay.node.api.streams.containers import ContainerRoutes
from plugbay.node.api.streams.ports import PortRoutes
from plugbay.node.api.writing.access_reviews import review_access, review_rules
from plugbay.node.api.writing.delete_options import is_grace
from plugbay.node.api.writing.patches import patched
from plugbay.node.api.writing.preconditions import check_same
from plugbay.objects import merge_rules
from plugbay.ops.routing import (
    JSON,
    Answer,
    Handler,
    HttpError,
    Request,
    Response,
    Router,
    json_response,
)
from plugbay.ops.slices import joined, json_pieces
from plugbay.pods.engine import PodEngine
from plugbay.pods.node import Node
from plugbay.pods.store.table import PodTable
from plugbay.printers import v1

_PODS = "/api/v1/namespaces/{namespace}/pods"
_POD = f"{_PODS}/{{name}}"
_ACCESS = "/apis/authorization.k8s.io/v1/namespaces/{namespace}"
_ACCOUNT = "/api/v1/namespaces/{namespace}/serviceaccounts/{name}"
_CORDON = frozenset({"spec.unschedulable", "metadata.resourceVersion"})
"""The fields of a node that a patch may hold when it changes nothing but the cordon."""


def control_router(
    pods: PodRoutes,
    containers: ContainerRoutes,
    ports: PortRoutes,
    node: NodeRoutes,
    proxy: NodeProxyRoutes,
    objects: ResourceRoutes,
    accounts: AccountRoutes,
    discovery: DiscoveryRoutes,
) -> Router:
    """All routes of the API, which the control socket has too."""
    router = Router()
    for method, template, handler, known in (
        ("POST", _PODS, pods.create, parameters.WRITE),
        ("PUT", _POD, pods.put, parameters.WRITE),
        ("PATCH", _POD, pods.patch, parameters.PATCH),
        ("DELETE", _PODS, pods.delete_collection, parameters.DELETE_COLLECTION),
        ("GET", f"{_POD}/status", pods.get_status, parameters.GET),
        ("PUT", f"{_POD}/status", pods.put_status, parameters.WRITE),
        ("PATCH", f"{_POD}/status", pods.patch_status, parameters.PATCH),
        ("POST", f"{_POD}/eviction", pods.evict, parameters.WRITE),
        ("PATCH", "/api/v1/nodes/{name}", node.patch, parameters.PATCH),
        ("POST", f"{_ACCESS}/localsubjectaccessreviews", review_access, parameters.WRITE),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review_access, parameters.WRITE),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review_rules, parameters.WRITE),
        ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review_access, parameters.WRITE),
        ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", accounts.review_self, parameters.WRITE),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", accounts.review_token, parameters.WRITE),
        ("POST", f"{_ACCOUNT}/token", accounts.request_token, parameters.WRITE),
        ("DELETE", _POD, pods.delete, parameters.DELETE),
        ("GET", f"{_POD}/log", containers.log, parameters.LOG),
        ("GET", f"{_POD}/exec", containers.exec, parameters.EXEC),
        ("POST", f"{_POD}/exec", containers.exec, parameters.EXEC),
        ("GET", f"{_POD}/portforward", ports.forward, parameters.PORT_FORWARD),
        ("POST", f"{_POD}/portforward", ports.forward, parameters.PORT_FORWARD),
        ("GET", "/plugbay/v1/devices", node.devices, parameters.NONE),
        ("POST", "/plugbay/v1/cordon", node.cordon, parameters.NONE),
        ("POST", "/plugbay/v1/drain", node.drain, parameters.NONE),
        ("POST", "/plugbay/v1/uncordon", node.uncordon, parameters.NONE),
        ("GET", "/healthz", _healthz, parameters.NONE),
        ("GET", "/livez", _healthz, parameters.NONE),
        ("GET", "/readyz", _healthz, parameters.NONE),
    ):
        router.add(method, template, _checked(handler, known))
    for depth in range(DEEPEST + 1):
        template = PROXY + "".join(f"/{{part{place}}}" for place in range(depth))
        router.add("GET", template, _translated(proxy.get))
    discovery.add_to(router)
    for method, template in ResourceRoutes.PLACES:
        router.add(method, template, _translated(objects.answer))
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

    async def patch(self, request: Request) -> Response:
        """Cordon or uncordon the node, which is all of it that a client can change."""
        value = self.object()
        if request.params["name"] != self._facts.name:
            raise not_found(NODES, request.params["name"])
        wanted = patched(value, request, merge_rules.NODE)
        check_same(NODES, value, wanted)
        unschedulable = v1.at(wanted, "spec", "unschedulable")
        if unschedulable not in (None, False, True):
            raise HttpError(422, "Invalid", "spec.unschedulable: must be true or false")
        if others := _changes_besides_cordon(value, wanted):
            problem = f"only spec.unschedulable of the node can be changed, not {', '.join(others)}"
            raise HttpError(422, "Invalid", problem, details={"name": self._facts.name, "kind": NODES.plural})
        if not is_rehearsal(request):
            await (self._engine.cordon() if unschedulable else self._engine.uncordon())
        return json_response(self.object())

    async def devices(self, request: Request) -> Response:
        shown = await joined(json_pieces(devices_object(self._manager, self._pods)))
        return Response(body=shown.encode() + b"\n", content_type=JSON)

    async def cordon(self, request: Request) -> Response:
        await self._engine.cordon()
        return json_response(self.object())

    async def drain(self, request: Request) -> Response:
        """The pods are on their way out when this is answered."""
        await self._engine.drain(grace_s=_grace_s(request))
        return json_response(self.object())

    async def uncordon(self, request: Request) -> Response:
        await self._engine.uncordon()
        return json_response(self.object())

    def object(self) -> Json:
        """The node as it is now."""
        counts = self._manager.resources()
        capacity = {name: count.capacity for name, count in counts.items()}
        allocatable = {name: count.allocatable for name, count in counts.items()}
        return node_object(
            self._facts,
            Resources(capacity, allocatable),
            cordoned_since=self._node.cordoned_since,
            runtime=self._node.runtime_health,
        )


def _changes_besides_cordon(value: Json, wanted: Json) -> list[str]:
    parts = {
        f"{part}.{name}"
        for part in ("metadata", "spec", "status")
        for name in (v1.mapping(value, part).keys() | v1.mapping(wanted, part).keys())
    }
    return [
        path
        for path in sorted(parts - _CORDON)
        if v1.at(value, *path.split(".", 1)) != v1.at(wanted, *path.split(".", 1))
    ]


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
        return await handler(request)

    return _translated(answer)


def _translated(handler: Handler) -> Handler:
    """``handler``, its errors as the API server's, and what is large compressed."""

    async def answer(request: Request) -> Answer:
        try:
            return await compressed(request, await handler(request))
        except PlugbayError as error:
            raise _http_error(error) from error

    return answer


def _http_error(error: PlugbayError) -> HttpError:
    match error:
        case PodNotFound():
            return not_found(PODS, error.name)
        case PodExists():
            details = {"name": error.name, "kind": PODS.plural}
            return HttpError(409, "AlreadyExists", str(error), details=details)
        case InvalidManifest() | ImmutablePod():
            return HttpError(422, "Invalid", str(error))
        case ContainerNotFound() | UsageError():
            return HttpError(400, "BadRequest", str(error))
        case StoreUnusable():
            return HttpError(507, "InternalError", str(error))
        case _:
            return HttpError(500, "InternalError", str(error))
