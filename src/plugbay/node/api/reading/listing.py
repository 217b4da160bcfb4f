"""Lists of objects, whole or page by page, and single objects.

Source: Kubernetes API concepts, "Retrieving large results sets in chunks" and "Resource versions"; apiserver 1.36
``pkg/storage/continue.go``.
"""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import Final

import msgspec

from plugbay.documents import Json
from plugbay.node.api.parameters import is_set, whole_number
from plugbay.node.api.reading.collection import Collection, expired
from plugbay.node.api.reading.forms import Included, in_form, list_body, metadata_list, table
from plugbay.node.api.reading.items import ApiItem
from plugbay.node.api.reading.negotiation import MediaForm, wanted_form
from plugbay.node.api.reading.selection import ItemSelection
from plugbay.node.api.resources import ApiResource
from plugbay.ops.routing import JSON, HttpError, Request, Response, json_response
from plugbay.values import dataclass


class _Position(msgspec.Struct):
    """The place where the list at ``path`` goes on: after the object ``namespace`` / ``name``, at ``version``."""

    path: str
    version: int
    namespace: str
    name: str


_POSITION: Final = msgspec.json.Decoder(_Position)


@dataclass(frozen=True, slots=True)
class _Page:
    version: int
    items: list[ApiItem]
    last: ApiItem | None
    """The last object of a page that others follow."""
    left: int


def list_response(collection: Collection, resource: ApiResource, request: Request, now: datetime) -> Response:
    """The objects that a request selects.

    Raises:
        HttpError: 400, 406, 410 or 504, it asks for what there is not.
        UsageError: a selector cannot be read.
    """
    form = wanted_form(request.headers.get("accept", ""))
    selection = ItemSelection(request, resource)
    page = _page(collection, selection, request)
    metadata: Json = {"resourceVersion": str(page.version)}
    if page.last is not None:
        metadata["continue"] = _token(request.path, page.version, page.last)
        if not request.query.get("labelSelector") and not request.query.get("fieldSelector"):
            metadata["remainingItemCount"] = page.left
    match form:
        case MediaForm.TABLE:
            included = included_in(request)
            return json_response(table(resource, page.items, now, metadata, included=included, titled=True))
        case MediaForm.METADATA_LIST | MediaForm.METADATA:
            return json_response(metadata_list(page.items, metadata))
        case MediaForm.OBJECTS:
            return Response(body=list_body(resource, page.items, metadata), content_type=JSON)


def object_response(resource: ApiResource, item: ApiItem, request: Request, now: datetime) -> Response:
    """One object.

    Raises:
        HttpError: 406, there is no such form of it.
    """
    form = wanted_form(request.headers.get("accept", ""))
    return json_response(in_form(resource, item, form, now, included=included_in(request)))


def included_in(request: Request) -> Included:
    return Included(request.query.get("includeObject") or Included.METADATA.value)


def check_options(request: Request) -> None:
    """Refuse options that mean nothing together.

    Raises:
        HttpError: 422, in an API server's words.

    Source: Kubernetes 1.36 ``apimachinery/pkg/apis/meta/internalversion/validation``.
    """
    query = request.query
    match, version = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    is_watch, says_initial = is_set(request, "watch"), "sendInitialEvents" in query
    if says_initial and not is_watch:
        raise _invalid("sendInitialEvents", "sendInitialEvents is forbidden for list")
    if says_initial and match != "NotOlderThan":
        needed = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise _invalid("resourceVersionMatch", needed)
    if match and is_watch and not says_initial:
        needed = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise _invalid("resourceVersionMatch", needed)
    if match and query.get("continue"):
        raise _invalid("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
    if match and not is_watch and not version:
        raise _invalid("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match == "Exact" and version == "0":
        needed = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise _invalid("resourceVersionMatch", needed)


def _invalid(field: str, problem: str) -> HttpError:
    message = f'ListOptions.meta.k8s.io "" is invalid: {field}: Forbidden: {problem}'
    cause = {"reason": "FieldValueForbidden", "message": f"Forbidden: {problem}", "field": field}
    return HttpError(
        422, "Invalid", message, details={"group": "meta.k8s.io", "kind": "ListOptions", "causes": [cause]}
    )


def _page(collection: Collection, selection: ItemSelection, request: Request) -> _Page:
    limit = whole_number(request, "limit") or 0
    position = _position(token, request) if (token := request.query.get("continue")) else None
    version = _version(collection, request) if position is None else position.version
    state = collection.at(version)
    if state is None and position is not None:
        raise expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new "
            "list without the continue parameter."
        )
    if state is None:
        raise expired("The resourceVersion for the provided list is too old.")
    items = [item for item in state if selection.holds(item)]
    if position is not None:
        items = [item for item in items if item.key > (position.namespace, position.name)]
    if not limit or len(items) <= limit:
        return _Page(version, items, None, 0)
    return _Page(version, items[:limit], items[limit - 1], len(items) - limit)


def _version(collection: Collection, request: Request) -> int:
    """The version that a new list shows: the present one, unless another is asked for."""
    version = whole_number(request, "resourceVersion") or 0
    if version > collection.version:
        problem = f"Too large resource version: {version}, current: {collection.version}"
        raise HttpError(504, "Timeout", problem, headers=(("Retry-After", "1"),))
    return version if request.query.get("resourceVersionMatch") == "Exact" else collection.version


def _token(path: str, version: int, last: ApiItem) -> str:
    position = {"path": path, "version": version, "namespace": last.namespace, "name": last.name}
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode()


def _position(token: str, request: Request) -> _Position:
    try:
        position = _POSITION.decode(base64.urlsafe_b64decode(token))
    except (ValueError, msgspec.MsgspecError):
        raise HttpError(400, "BadRequest", "continue key is not valid: it is not one that a list gave") from None
    if position.path != request.path:
        raise HttpError(400, "BadRequest", f"continue key is not valid: it is of the list at {position.path}")
    if request.query.get("resourceVersion", "0") not in ("", "0"):
        raise HttpError(400, "BadRequest", "specifying resource version is not allowed when using continue")
    return position
