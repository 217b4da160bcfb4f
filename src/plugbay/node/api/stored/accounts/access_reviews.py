"""Answers to ``kubectl auth can-i``: the owner of the node's token may do everything, an account what its roles allow.

Source: Kubernetes 1.36 ``api/authorization/v1/types.go``.
"""

from __future__ import annotations

from typing import Final

from plugbay.documents import Json
from plugbay.node.access.account_tokens import AccountUser
from plugbay.node.access.authorization import RequestedAction, StoredObjects, is_allowed, rules_of
from plugbay.node.access.clients import ClientUsers, named_user
from plugbay.node.api.stored.accounts.reviews import REVIEWS
from plugbay.node.api.stored.decoding import decoded
from plugbay.node.api.writing.bodies import body_of
from plugbay.ops.routing import HttpError, Request, Response, json_response
from plugbay.printers import v1

_OWNER_MAY: Final[Json] = {"allowed": True, "reason": "the owner of the node may do everything"}
_EVERYTHING: Final[Json] = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


class AccessReviews:
    """Answers questions about rights."""

    def __init__(self, clients: ClientUsers, objects: StoredObjects) -> None:
        self._clients = clients
        self._objects = objects

    async def review_self(self, request: Request) -> Response:
        """Tell whether the client may do something."""
        review = _review_in(request)
        return _answer(review, self._verdict(self._clients.of(request.headers), v1.mapping(review, "spec")))

    async def review_other(self, request: Request) -> Response:
        """Tell whether the user in the question may do something."""
        review = _review_in(request)
        spec = v1.mapping(review, "spec")
        user = named_user(v1.text(spec, "user"), v1.texts(spec, "groups"), uid=v1.text(spec, "uid"))
        return _answer(review, self._verdict(user, spec))

    async def review_rules(self, request: Request) -> Response:
        """Tell all that the client may do in a namespace."""
        review, user = _review_in(request), self._clients.of(request.headers)
        if user is None:
            return _answer(review, _EVERYTHING)
        rules = list(rules_of(user, v1.text(review, "spec", "namespace"), self._objects))
        status: Json = {
            "resourceRules": [rule for rule in rules if "nonResourceURLs" not in rule],
            "nonResourceRules": [rule for rule in rules if "nonResourceURLs" in rule],
            "incomplete": False,
        }
        return _answer(review, status)

    def _verdict(self, user: AccountUser | None, spec: Json) -> Json:
        if user is None:
            return _OWNER_MAY
        return {"allowed": is_allowed(user, _action(spec), self._objects)}


def _action(spec: Json) -> RequestedAction:
    wanted, path = v1.mapping(spec, "resourceAttributes"), v1.mapping(spec, "nonResourceAttributes")
    if not wanted:
        return RequestedAction(v1.text(path, "verb"), v1.text(path, "path"))
    below = v1.text(wanted, "subresource")
    return RequestedAction(
        v1.text(wanted, "verb"),
        "",
        v1.text(wanted, "group"),
        v1.text(wanted, "resource") + (f"/{below}" if below else ""),
        v1.text(wanted, "namespace"),
        v1.text(wanted, "name"),
    )


def _review_in(request: Request) -> Json:
    """The question, of the kind that is asked for at its place.

    Raises:
        HttpError: 400, the body is not such a question.
    """
    plural = request.path.rpartition("/")[2]
    [resource] = (each for each in REVIEWS if each.plural == plural)
    review = decoded(body_of(request), resource).value
    if "spec" not in review:
        raise HttpError(400, "BadRequest", "the body must be a review with a spec")
    return review


def _answer(review: Json, status: Json) -> Response:
    return json_response(review | {"metadata": {}, "status": status}, status=201)
