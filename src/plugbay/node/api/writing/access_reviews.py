"""Answers to ``kubectl auth can-i``: a client of the node, or a service account, may do whatever the node can.

Source: Kubernetes 1.36 ``api/authorization/v1/types.go``.
"""

from __future__ import annotations

from typing import Final

from plugbay.documents import Json
from plugbay.node.api.writing.bodies import body_of
from plugbay.ops.routing import HttpError, Request, Response, json_response

_VERSION: Final = "authorization.k8s.io/v1"
_REASON: Final = "this node does not restrict its clients"
_EVERYTHING: Final[Json] = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


async def review_access(request: Request) -> Response:
    """Answer a review of whether somebody may do something."""
    return _answer(request, {"allowed": True, "reason": _REASON})


async def review_rules(request: Request) -> Response:
    """Answer a review of all that a client may do."""
    return _answer(request, _EVERYTHING)


def _answer(request: Request, status: Json) -> Response:
    review = body_of(request)
    kind = review.get("kind") or "SelfSubjectAccessReview" if isinstance(review, dict) else ""
    if not isinstance(review, dict) or not isinstance(review.get("spec"), dict):
        raise HttpError(400, "BadRequest", "the body must be a review with a spec")
    answer = {"kind": kind, "apiVersion": _VERSION, "metadata": {}, "spec": review["spec"], "status": status}
    return json_response(answer, status=201)
