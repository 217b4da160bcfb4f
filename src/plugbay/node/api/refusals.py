"""Refusals of objects, in an API server's words. Pure.

Source: Kubernetes 1.36 ``apimachinery/pkg/api/errors/errors.go``.
"""

from __future__ import annotations

from collections.abc import Iterable

from plugbay.node.api.resources import ApiResource
from plugbay.objects.problems import FieldProblem
from plugbay.ops.routing import HttpError
from plugbay.printers import v1


def check_problems(resource: ApiResource, name: str, problems: Iterable[FieldProblem]) -> None:
    """Refuse an object with problems.

    Raises:
        HttpError: 422, with all of them.
    """
    found = list(dict.fromkeys(problems))
    if not found:
        return
    text = str(found[0]) if len(found) == 1 else f"[{', '.join(map(str, found))}]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    causes = [{"reason": each.reason, "message": each.message, "field": each.field} for each in found]
    raise HttpError(
        422,
        "Invalid",
        f'{kind} "{name}" is invalid: {text}',
        details=_details(resource, name, resource.kind) | {"causes": causes},
    )


def not_found(resource: ApiResource, name: str) -> HttpError:
    problem = f'{resource.qualified} "{name}" not found'
    return HttpError(404, "NotFound", problem, details=_details(resource, name, resource.plural))


def already_exists(resource: ApiResource, name: str) -> HttpError:
    problem = f'{resource.qualified} "{name}" already exists'
    return HttpError(409, "AlreadyExists", problem, details=_details(resource, name, resource.plural))


def conflict(resource: ApiResource, name: str, why: str) -> HttpError:
    """The change is meant for another state of the object."""
    problem = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return HttpError(409, "Conflict", problem, details=_details(resource, name, resource.plural))


def forbidden_object(resource: ApiResource, name: str, why: str, *, cause: str = "") -> HttpError:
    details = _details(resource, name, resource.plural)
    if cause:
        details["causes"] = [{"reason": cause, "message": why, "field": "metadata.namespace"}]
    problem = (
        f'{resource.qualified} "{name}" is forbidden: {why}' if name else f"{resource.qualified} is forbidden: {why}"
    )
    return HttpError(403, "Forbidden", problem, details=details)


def unreadable(resource: ApiResource, why: str) -> HttpError:
    """The body is not an object of the kind."""
    problem = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {why}'
    return HttpError(400, "BadRequest", problem)


def check_unversioned(value: object) -> None:
    """Refuse an object to be made that names a state, which only an object that is there has.

    Raises:
        HttpError: 400.
    """
    if v1.text(value, "metadata", "resourceVersion"):
        raise HttpError(400, "BadRequest", "resourceVersion should not be set on objects to be created")


def not_allowed() -> HttpError:
    """There is such a kind, and it does not have the verb."""
    problem = "the server does not allow this method on the requested resource"
    return HttpError(405, "MethodNotAllowed", problem, details={})


def no_such_resource() -> HttpError:
    """Go's clients look into the details, and end if there are none."""
    return HttpError(404, "NotFound", "the server could not find the requested resource", details={})


def _details(resource: ApiResource, name: str, kind: str) -> dict[str, object]:
    group: dict[str, object] = {"group": resource.group} if resource.group else {}
    return {"name": name, **group, "kind": kind}
