"""The state that a change is meant for. Pure."""

from __future__ import annotations

from typing import Final

from plugbay.documents import Json
from plugbay.node.api.refusals import conflict
from plugbay.node.api.resources import ApiResource
from plugbay.ops.routing import HttpError
from plugbay.printers import v1

_IDENTITY: Final = ("name", "namespace", "uid")


def check_version(resource: ApiResource, value: Json, wanted: object) -> None:
    """Refuse a change that names another state of an object than the present one.

    Raises:
        HttpError: 409, in an API server's words.
    """
    version = v1.text(wanted, "metadata", "resourceVersion")
    uid = v1.uid(wanted)
    if (version and version != v1.text(value, "metadata", "resourceVersion")) or (uid and uid != v1.uid(value)):
        why = "the object has been modified; please apply your changes to the latest version and try again"
        raise conflict(resource, v1.name(value), why)


def check_same(resource: ApiResource, value: Json, wanted: Json) -> None:
    """Refuse a patch that makes another object of one, or that is meant for another state of it.

    Raises:
        HttpError: 400 or 409.
    """
    for name in ("apiVersion", "kind"):
        if wanted.get(name) != value.get(name):
            raise HttpError(400, "BadRequest", f"a patch cannot change {name} of an object")
    check_version(resource, value, wanted)
    for name in _IDENTITY:
        if v1.text(wanted, "metadata", name) != v1.text(value, "metadata", name):
            raise HttpError(400, "BadRequest", f"a patch cannot change metadata.{name} of an object")
