"""Tokens of service accounts, as clients ask for them, and whose they are.

Source: Kubernetes 1.36 ``pkg/registry/core/serviceaccount/storage/token.go``,
``pkg/apis/authentication/validation``, ``pkg/registry/authentication``.
"""

from __future__ import annotations

from typing import Final

from plugbay.documents import Json
from plugbay.node.access.account_tokens import AUDIENCES, AccountTokens, BoundObject
from plugbay.node.access.clients import MASTERS, OWNER_NAME, ClientUsers
from plugbay.node.api.parameters import is_rehearsal
from plugbay.node.api.refusals import conflict
from plugbay.node.api.stored.accounts.identity import SERVICE_ACCOUNTS
from plugbay.node.api.stored.writing import ObjectWriter
from plugbay.node.api.writing.bodies import body_of
from plugbay.objects.problems import FieldProblem, invalid, not_supported
from plugbay.objects.table import ObjectKey, ObjectTable
from plugbay.ops.routing import HttpError, Request, Response, json_response
from plugbay.pods.status import timestamp
from plugbay.pods.store.table import PodTable
from plugbay.printers import v1

_HOUR_S: Final = 3600
_LEAST_S: Final = 600
_MOST_S: Final = 1 << 32
_GROUP: Final = "authentication.k8s.io/v1"
_OWNER: Final[Json] = {"username": OWNER_NAME, "groups": [MASTERS, "system:authenticated"]}


class AccountRoutes:
    """Answers TokenRequests, TokenReviews and SelfSubjectReviews."""

    def __init__(
        self, tokens: AccountTokens, clients: ClientUsers, writer: ObjectWriter, objects: ObjectTable, pods: PodTable
    ) -> None:
        self._tokens = tokens
        self._clients = clients
        self._writer = writer
        self._objects = objects
        self._pods = pods

    async def request_token(self, request: Request) -> Response:
        """Make a token for the service account that the request names."""
        body = _body(request, "TokenRequest")
        namespace, name = request.params["namespace"], request.params["name"]
        account = self._writer.get(SERVICE_ACCOUNTS, namespace, name)
        spec = v1.mapping(body, "spec")
        expires_s = spec.get("expirationSeconds") or _HOUR_S
        if not isinstance(expires_s, int) or isinstance(expires_s, bool):
            raise HttpError(400, "BadRequest", "spec.expirationSeconds must be a whole number")
        _check_expiration(expires_s)
        audiences = v1.texts(spec, "audiences") or list(AUDIENCES)
        bound = self._bound(v1.mapping(spec, "boundObjectRef"), namespace)
        answer: Json = {
            "kind": "TokenRequest",
            "apiVersion": _GROUP,
            "metadata": {"name": name, "namespace": namespace},
        }
        answer["spec"] = spec | {"audiences": audiences, "expirationSeconds": expires_s}
        if not is_rehearsal(request):
            token, end = await self._tokens.issue(account, audiences, expires_s, bound)
            answer["status"] = {"token": token, "expirationTimestamp": timestamp(end)}
        return json_response(answer, status=201)

    async def review_token(self, request: Request) -> Response:
        """Tell whose a token is."""
        spec = v1.mapping(_body(request, "TokenReview"), "spec")
        user = self._tokens.user(v1.text(spec, "token"), v1.texts(spec, "audiences") or AUDIENCES)
        if user is None:
            status: Json = {"user": {}, "error": "[invalid bearer token]"}
        else:
            wanted = v1.texts(spec, "audiences") or list(AUDIENCES)
            both = [each for each in wanted if each in user.audiences]
            status = {"authenticated": True, "user": user.object(), "audiences": both}
        answer = {"kind": "TokenReview", "apiVersion": _GROUP, "metadata": {}, "spec": spec, "status": status}
        return json_response(answer, status=201)

    async def review_self(self, request: Request) -> Response:
        """Tell whose the request is."""
        _body(request, "SelfSubjectReview")
        user = self._clients.of(request.headers)
        status: Json = {"userInfo": _OWNER if user is None else user.object()}
        answer = {"kind": "SelfSubjectReview", "apiVersion": _GROUP, "metadata": {}, "status": status}
        return json_response(answer, status=201)

    def _bound(self, reference: Json, namespace: str) -> BoundObject | None:
        """The object that a token is to be bound to.

        Raises:
            HttpError: 404, 409 or 422, it cannot be.
        """
        if not reference:
            return None
        kind, name, uid = (v1.text(reference, each) for each in ("kind", "name", "uid"))
        if kind not in ("Pod", "Secret"):
            raise _invalid(not_supported("spec.boundObjectRef.kind", kind, ["Pod", "Secret"]))
        plural = f"{kind.lower()}s"
        found = self._uid(kind, namespace, name)
        if not found:
            details: Json = {"name": name, "kind": plural}
            raise HttpError(404, "NotFound", f'{plural} "{name}" not found', details=details)
        if uid and uid != found:
            why = (
                f"the UID in the bound object reference ({uid}) does not match the UID in record. The object might have"
            )
            raise conflict(SERVICE_ACCOUNTS, name, f"{why} been deleted and then recreated")
        return BoundObject(kind, name, found)

    def _uid(self, kind: str, namespace: str, name: str) -> str:
        if kind == "Pod":
            return str(self._pods.named(namespace, name).uid) if self._pods.has(namespace, name) else ""
        return v1.uid(self._objects.get(ObjectKey("", "secrets", namespace, name)))


def _body(request: Request, kind: str) -> Json:
    body = body_of(request)
    if not isinstance(body, dict) or body.get("kind", kind) != kind:
        raise HttpError(400, "BadRequest", f"the body must be a {kind}")
    return body


def _check_expiration(expires_s: int) -> None:
    if expires_s < _LEAST_S:
        rule = "may not specify a duration less than 10 minutes"
        raise _invalid(invalid("spec.expirationSeconds", expires_s, rule))
    if expires_s > _MOST_S:
        raise _invalid(
            invalid("spec.expirationSeconds", expires_s, "may not specify a duration larger than 2^32 seconds")
        )


def _invalid(problem: FieldProblem) -> HttpError:
    causes = [{"reason": problem.reason, "message": problem.message, "field": problem.field}]
    details: Json = {"group": "authentication.k8s.io", "kind": "TokenRequest", "causes": causes}
    return HttpError(422, "Invalid", f'TokenRequest.authentication.k8s.io "" is invalid: {problem}', details=details)
