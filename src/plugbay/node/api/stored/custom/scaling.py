"""The subresource ``scale`` of custom resources: where a definition says that the numbers are. Pure.

Source: Kubernetes 1.36 ``apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go``
(ValidateCustomResourceDefinitionSubresources), ``pkg/registry/customresource/validator.go`` (ValidateScaleSpec).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugbay.documents import Json
from plugbay.node.api.resources import ScaledFields
from plugbay.objects.problems import FieldProblem, invalid, required
from plugbay.printers import v1

_MOST: Final = 2**31 - 1
_WANTED: Final = "specReplicasPath"
_PRESENT: Final = "statusReplicasPath"
_SELECTOR: Final = "labelSelectorPath"
_PARENTS: Final = {_WANTED: ("spec",), _PRESENT: ("status",), _SELECTOR: ("spec", "status")}


def scaled_in(version: Json) -> ScaledFields | None:
    """The fields that a version's scale shows; None where it has none."""
    scale = v1.mapping(version, "subresources").get("scale")
    if not isinstance(scale, dict):
        return None
    return ScaledFields(*(_steps(v1.text(scale, name)) for name in _PARENTS))


def definition_problems(version: Json, path: str) -> Iterator[FieldProblem]:
    """Problems of the scale in a version of a definition."""
    scale = v1.mapping(version, "subresources").get("scale")
    if not isinstance(scale, dict):
        return
    for name, parents in _PARENTS.items():
        where, named = f"{path}.subresources.scale.{name}", v1.text(scale, name)
        if not named and name != _SELECTOR:
            yield required(where)
        elif named and not named.startswith("."):
            yield invalid(where, named, "must be a simple json path starting with .")
        elif named and (len(_steps(named)) < 2 or _steps(named)[0] not in parents):
            either = "either " if len(parents) > 1 else ""
            yield invalid(
                where, named, f"should be a json path under {either}{' or '.join(f'.{each}' for each in parents)}"
            )


def scale_problems(value: Json, scaled: ScaledFields | None) -> Iterator[FieldProblem]:
    """Problems of the numbers that an object's scale shows."""
    if scaled is None:
        return
    for path in (scaled.wanted, scaled.present):
        where, number = ".".join(path), v1.at(value, *path)
        if number is None:
            continue
        if not isinstance(number, int) or isinstance(number, bool):
            yield invalid(where, number, "should be an integer")
        elif number < 0:
            yield invalid(where, number, "should be a non-negative integer")
        elif number > _MOST:
            yield invalid(where, number, f"should be less than or equal to {_MOST}")
    if scaled.selector and not isinstance(v1.at(value, *scaled.selector), str | None):
        yield invalid(".".join(scaled.selector), v1.at(value, *scaled.selector), "should be a string")


def _steps(path: str) -> tuple[str, ...]:
    """The names of a path with dots; an API server takes no others here."""
    return tuple(each for each in path.split(".") if each)
