"""The body of a PATCH, applied to an object: JSON patch, merge patch, strategic merge patch. Pure.

Source: RFC 6902, RFC 7396; apiserver 1.36 ``pkg/endpoints/handlers/patch.go``.
"""

from __future__ import annotations

import copy
import json
from typing import Any, Final

from plugbay.documents import Json
from plugbay.objects.strategic_merge import MergeRule, UnusablePatch, strategic_merge
from plugbay.ops.routing import HttpError, Request

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
_KNOWN: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH)
_MAX_OPERATIONS: Final = 10_000
_MAX_COPIED_BYTES: Final = 3 * 1024 * 1024
"""An API server's limits. Without the second, copies of what was copied before would fill the memory."""
_REJECTED: Final = "the server rejected our request due to an error in our request"


def patched(value: Json, request: Request, rule: MergeRule | None) -> Json:
    """The object that a request makes of ``value``, which stays as it is. Without ``rule`` it has no strategic merges.

    Raises:
        HttpError: 415, the kind of patch is unknown; 400 or 422, it cannot be applied.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    known = _KNOWN if rule is not None else _KNOWN[:2]
    if kind not in known:
        problem = f"the body of the request was in an unknown format - accepted media types include: {', '.join(known)}"
        raise HttpError(415, "UnsupportedMediaType", problem)
    patch = request.json()
    if kind == JSON_PATCH:
        return _json_patched(value, patch)
    if not isinstance(patch, dict):
        raise HttpError(400, "BadRequest", "the patch must be an object")
    try:
        return merged(value, patch) if rule is None or kind == MERGE_PATCH else strategic_merge(value, patch, rule)
    except UnusablePatch as error:
        raise HttpError(400, "BadRequest", f"the patch cannot be applied: {error}") from None


def merged(value: Any, patch: Any) -> Any:
    """Apply a merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for name, wanted in patch.items():
        if wanted is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), wanted)
    return result


def _json_patched(value: Json, patch: object) -> Json:
    import jsonpatch  # few clients use it

    if not isinstance(patch, list):
        raise HttpError(400, "BadRequest", "a JSON patch must be a list of operations")
    if len(patch) > _MAX_OPERATIONS:
        problem = f"the allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}, got {len(patch)}"
        raise HttpError(413, "RequestEntityTooLarge", problem)
    try:
        result = copy.deepcopy(value)
        copied = 0
        for operation in patch:
            if isinstance(operation, dict) and operation.get("op") == "copy":
                copied += len(json.dumps(jsonpatch.JsonPointer(operation.get("from", "")).resolve(result)))
            if copied > _MAX_COPIED_BYTES:
                problem = f"the copies of a JSON patch may have {_MAX_COPIED_BYTES} bytes together"
                raise HttpError(413, "RequestEntityTooLarge", problem)
            result = jsonpatch.apply_patch(result, [operation], in_place=True)
    except jsonpatch.JsonPatchTestFailed:
        raise HttpError(422, "Invalid", f"{_REJECTED}: a test operation failed") from None
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError) as error:
        raise HttpError(422, "Invalid", f"{_REJECTED}: {error}") from None
    if not isinstance(result, dict):
        raise HttpError(422, "Invalid", "the JSON patch leaves something that is not an object")
    return result
