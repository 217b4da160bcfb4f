"""Refusals of pods, in an API server's words. Pure.

Source: Kubernetes 1.36 ``apimachinery/pkg/api/errors/errors.go``; kubectl's ``pkg/cmd/util/helpers.go`` prints the
causes, a line for each.
"""

from __future__ import annotations

from typing import Final

from plugbay.errors import ImmutablePod, InvalidManifest
from plugbay.node.api.resources import PODS
from plugbay.ops.routing import HttpError
from plugbay.printers import v1

_REASONS: Final = {
    "Required value": "FieldValueRequired",
    "Unsupported value": "FieldValueNotSupported",
    "Duplicate value": "FieldValueDuplicate",
    "Forbidden": "FieldValueForbidden",
    "Not found": "FieldValueNotFound",
}


def invalid_pod(value: object, error: InvalidManifest) -> HttpError:
    """422, with a cause for each problem of the pod that ``value`` should have been."""
    problems = (error, *error.more)
    causes = [
        {"reason": _REASONS.get(each.problem.partition(":")[0], "FieldValueInvalid"), "message": each.problem}
        | ({"field": each.field} if each.field else {})
        for each in problems
    ]
    name = v1.at(value, "metadata", "name")
    name = name if isinstance(name, str) else ""
    details = {"kind": PODS.kind, "causes": causes, "name": name}
    told = ", ".join(f"{each.field}: {each.problem}" if each.field else each.problem for each in problems)
    text = told if len(problems) == 1 else f"[{told}]"
    return HttpError(422, "Invalid", f'{PODS.kind} "{name}" is invalid: {text}', details=details)


def immutable_pod(error: ImmutablePod) -> HttpError:
    """422, with a cause for each field that may not be changed."""
    causes = [
        {
            "reason": "FieldValueForbidden",
            "message": "Forbidden: it may not be changed; delete the pod first",
            "field": field,
        }
        for field in error.fields
    ]
    return HttpError(422, "Invalid", str(error), details={"kind": PODS.kind, "name": error.name, "causes": causes})
