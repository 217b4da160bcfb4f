"""Problems with fields of objects, in an API server's words. Pure.

Source: Kubernetes 1.36 ``apimachinery/pkg/util/validation/field/errors.go``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from plugbay.manifest.resource_checks import invalid as invalid_text
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One problem.

    Attributes:
        reason: as ``metav1.CauseType``, such as ``FieldValueInvalid``.
        field: the path of the field, such as ``spec.ports[0].name``.
        message: a sentence without the field.
    """

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field or '[]'}: {self.message}"


def required(field: str, why: str = "") -> FieldProblem:
    return FieldProblem("FieldValueRequired", field, f"Required value: {why}" if why else "Required value")


def invalid(field: str, value: object, rule: str) -> FieldProblem:
    shown = json.dumps(value) if isinstance(value, dict | list) else value
    text = f"Invalid value: {shown}: {rule}" if isinstance(value, dict | list) else invalid_text(value, rule)
    return FieldProblem("FieldValueInvalid", field, text)


def forbidden(field: str, why: str) -> FieldProblem:
    return FieldProblem("FieldValueForbidden", field, f"Forbidden: {why}")


def too_long(field: str, most: int) -> FieldProblem:
    return FieldProblem("FieldValueTooLong", field, f"Too long: may not be more than {most} bytes")


def not_supported(field: str, value: str, choices: Iterable[str]) -> FieldProblem:
    supported = ", ".join(f'"{choice}"' for choice in sorted(choices))
    text = f'Unsupported value: "{value}": supported values: {supported}'
    return FieldProblem("FieldValueNotSupported", field, text)


def duplicate(field: str, value: str) -> FieldProblem:
    return FieldProblem("FieldValueDuplicate", field, f'Duplicate value: "{value}"')
