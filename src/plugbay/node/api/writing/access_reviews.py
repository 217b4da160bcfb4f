"""``kubectl auth can-i``: a client with the token may do whatever the node can."""

from __future__ import annotations

from plugbay.node.api.writing.bodies import body_of
from plugbay.ops.routing import HttpError, Request, Response, json_response


async def review_access(request: Request) -> Response:
    """Answer a SelfSubjectAccessReview."""
    review = body_of(request)
    if not isinstance(review, dict) or not isinstance(review.get("spec"), dict):
        raise HttpError(400, "BadRequest", "the body must be a SelfSubjectAccessReview with a spec")
    status = {"allowed": True, "reason": "a client with the node's token may do everything"}
    kind = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}}
    return json_response(kind | {"spec": review["spec"], "status": status}, status=201)
