"""The routes of the control socket."""

from __future__ import annotations

from plugbay.errors import (
    ContainerNotFound,
    ImmutablePod,
    InvalidManifest,
    PlugbayError,
    PodExists,
    PodForbidden,
    PodNotBindable,
    PodNotFound,
    StoreUnusable,
    UsageError,
)
from plugbay.node.api import parameters
from plugbay.node.api.discovery.routes import DiscoveryRoutes
from plugbay.node.api.node_proxy import DEEPEST, PROXY, NodeProxyRoutes
from plugbay.node.api.nodes import NodeRoutes
from plugbay.node.api.parameters import Parameters, check_parameters
from plugbay.node.api.pods import PodRoutes
from plugbay.node.api.reading.compression import compressed
from plugbay.node.api.reading.yaml_answers import in_wanted_format
from plugbay.node.api.refusals import not_allowed, not_found
from plugbay.node.api.resources import PODS
from plugbay.node.api.stored.accounts.access_reviews import AccessReviews
from plugbay.node.api.stored.accounts.routes import AccountRoutes
from plugbay.node.api.stored.routes import ResourceRoutes
from plugbay.node.api.streams.containers import ContainerRoutes
from plugbay.node.api.streams.logs import LogRoutes
from plugbay.node.api.streams.ports import PortRoutes
from plugbay.node.api.writing.invalid_pods import immutable_pod
from plugbay.ops.routing import (
    Answer,
    Handler,
    HttpError,
    Request,
    Response,
    Router,
)

_PODS = "/api/v1/namespaces/{namespace}/pods"
_POD = f"{_PODS}/{{name}}"
_RIGHTS = "/apis/authorization.k8s.io/v1"
_ACCOUNT = "/api/v1/namespaces/{namespace}/serviceaccounts/{name}"
_NODE = "/api/v1/nodes/{name}"


def control_router(
    pods: PodRoutes,
    containers: ContainerRoutes,
    logs: LogRoutes,
    ports: PortRoutes,
    node: NodeRoutes,
    proxy: NodeProxyRoutes,
    objects: ResourceRoutes,
    accounts: AccountRoutes,
    rights: AccessReviews,
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
        ("POST", f"{_POD}/binding", pods.bind, parameters.WRITE),
        ("PUT", _NODE, node.put, parameters.WRITE),
        ("PATCH", _NODE, node.patch, parameters.PATCH),
        ("PUT", f"{_NODE}/status", node.put_status, parameters.WRITE),
        ("PATCH", f"{_NODE}/status", node.patch_status, parameters.PATCH),
        (
            "POST",
            f"{_RIGHTS}/namespaces/{{namespace}}/localsubjectaccessreviews",
            rights.review_other,
            parameters.WRITE,
        ),
        ("POST", f"{_RIGHTS}/selfsubjectaccessreviews", rights.review_self, parameters.WRITE),
        ("POST", f"{_RIGHTS}/selfsubjectrulesreviews", rights.review_rules, parameters.WRITE),
        ("POST", f"{_RIGHTS}/subjectaccessreviews", rights.review_other, parameters.WRITE),
        ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", accounts.review_self, parameters.WRITE),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", accounts.review_token, parameters.WRITE),
        ("POST", f"{_ACCOUNT}/token", accounts.request_token, parameters.WRITE),
        ("DELETE", _POD, pods.delete, parameters.DELETE),
        ("GET", f"{_POD}/log", logs.log, parameters.LOG),
        ("GET", f"{_POD}/attach", containers.attach, parameters.ATTACH),
        ("POST", f"{_POD}/attach", containers.attach, parameters.ATTACH),
        ("PUT", f"{_POD}/ephemeralcontainers", containers.refuse_to_add, parameters.PATCH),
        ("PATCH", f"{_POD}/ephemeralcontainers", containers.refuse_to_add, parameters.PATCH),
        ("GET", f"{_POD}/exec", containers.exec, parameters.EXEC),
        ("POST", f"{_POD}/exec", containers.exec, parameters.EXEC),
        ("GET", f"{_POD}/portforward", ports.forward, parameters.PORT_FORWARD),
        ("POST", f"{_POD}/portforward", ports.forward, parameters.PORT_FORWARD),
        ("GET", "/plugbay/v1/devices", node.devices, parameters.NONE),
        ("POST", "/plugbay/v1/cordon", node.cordon, parameters.NONE),
        ("POST", "/plugbay/v1/drain", node.drain, parameters.NONE),
        ("POST", "/plugbay/v1/uncordon", node.uncordon, parameters.NONE),
        ("GET", "/healthz", _healthz, parameters.HEALTH),
        ("GET", "/livez", _healthz, parameters.HEALTH),
        ("GET", "/readyz", _healthz, parameters.HEALTH),
    ):
        router.add(method, template, _checked(handler, known))
    for depth in range(DEEPEST + 1):
        template = PROXY + "".join(f"/{{part{place}}}" for place in range(depth))
        router.add("GET", template, _translated(proxy.get))
    discovery.add_to(router)
    for method, template in ResourceRoutes.PLACES:
        router.add(method, template, _translated(objects.answer))
    return router


async def _healthz(request: Request) -> Response:
    if "verbose" in request.query:
        return Response(body=f"[+]ping ok\n{request.path[1:]} check passed\n".encode())
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
        if request.method == "HEAD" and request.path.startswith(("/api/", "/apis/")):
            raise not_allowed()  # as an API server, which knows GET only
        try:
            return await compressed(request, await in_wanted_format(request, await handler(request)))
        except PlugbayError as error:
            raise _http_error(error) from error
        except RecursionError:
            raise HttpError(400, "BadRequest", "the request body is nested too deep") from None
        except UnicodeEncodeError:
            raise HttpError(400, "BadRequest", "a text of the request has half a character") from None

    return answer


def _http_error(error: PlugbayError) -> HttpError:
    match error:
        case PodNotFound():
            return not_found(PODS, error.name)
        case PodExists():
            details = {"name": error.name, "kind": PODS.plural}
            return HttpError(409, "AlreadyExists", str(error), details=details)
        case PodForbidden():
            return HttpError(403, "Forbidden", str(error), details={"name": error.name, "kind": PODS.plural})
        case PodNotBindable():
            return HttpError(409, "Conflict", str(error), details={"name": error.name, "kind": "pods/binding"})
        case InvalidManifest():
            return HttpError(422, "Invalid", str(error))
        case ImmutablePod():
            return immutable_pod(error)
        case ContainerNotFound() | UsageError():
            return HttpError(400, "BadRequest", str(error))
        case StoreUnusable():
            return HttpError(507, "InternalError", str(error))
        case _:
            return HttpError(500, "InternalError", str(error))
