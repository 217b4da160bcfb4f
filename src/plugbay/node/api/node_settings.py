"""Changes of the node as a v1 object, checked and turned into what the node keeps. Pure.

Source: Kubernetes 1.36 ``pkg/apis/core/validation/validation.go`` (ValidateNodeUpdate),
``pkg/registry/core/node/strategy.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, cast

from plugbay.documents import Json
from plugbay.errors import InvalidQuantity
from plugbay.manifest.checks import MAX_ANNOTATIONS_BYTES
from plugbay.manifest.placement import TAINT
from plugbay.manifest.placement_checks import check_label_key, check_label_value, check_taints
from plugbay.manifest.report import ManifestReport, Strictness
from plugbay.manifest.shapes import Field, Flag, ListOf, MapOf, Shape, Support, Table, Text, Walk
from plugbay.model.field_path import FieldPath
from plugbay.model.ids import is_extended_resource
from plugbay.model.nodes import NodeInput
from plugbay.model.quantity import Quantity
from plugbay.model.taints import UNSCHEDULABLE_KEY, Effect, Taint
from plugbay.node.api.refusals import check_problems
from plugbay.node.api.resources import NODES
from plugbay.objects.problems import FieldProblem
from plugbay.printers import v1


def _table(**fields: Shape) -> Table:
    return Table({name: Field(Support.USED, shape) for name, shape in fields.items()})


_METADATA: Final = _table(labels=MapOf(Text()), annotations=MapOf(Text()))
_SPEC: Final = _table(unschedulable=Flag(), taints=ListOf(TAINT))
_WRITABLE: Final = _table(metadata=_METADATA, spec=_SPEC)
_OWN_METADATA: Final = frozenset({"labels", "annotations", "resourceVersion", "managedFields"})
_OWN_SPEC: Final = frozenset({"unschedulable", "taints"})
_STATUS_FIELDS: Final = frozenset({"capacity", "allocatable", "conditions"})
_CAUSES: Final = {
    "Duplicate value": "FieldValueDuplicate",
    "Forbidden": "FieldValueForbidden",
    "Invalid value": "FieldValueInvalid",
    "Required value": "FieldValueRequired",
    "Too long": "FieldValueTooLong",
    "Unsupported value": "FieldValueNotSupported",
}
_CONDITION_FIELDS: Final = ("type", "status", "reason", "message", "lastHeartbeatTime", "lastTransitionTime")


def settings_of(value: Json, wanted: Json, before: NodeInput, kept: Mapping[str, str], now: datetime) -> NodeInput:
    """The settings that make the node what a client wants, apart from its status.

    Args:
        value: the node as it is.
        kept: labels that the node gives itself.

    Raises:
        HttpError: it wants something that a node cannot be, or that this one keeps.
    """
    report = _report(value)
    _refuse_others(value, wanted, "metadata", _OWN_METADATA, report)
    _refuse_others(value, wanted, "spec", _OWN_SPEC, report)
    fields = {
        "metadata": {name: v1.at(wanted, "metadata", name) for name in _METADATA.fields},
        "spec": {name: v1.at(wanted, "spec", name) for name in _SPEC.fields},
    }
    read = cast("dict[str, dict[str, Any]]", Walk(report).read(fields, _WRITABLE))
    metadata, spec = read.get("metadata", {}), read.get("spec", {})
    labels: dict[str, str] = metadata.get("labels", {})
    for key, text in labels.items():
        check_label_key(key, ("metadata", "labels", key), report)
        check_label_value(text, ("metadata", "labels", key), report)
    for key, text in kept.items():
        if labels.get(key) != text:
            report.problem(("metadata", "labels", key), f'Forbidden: the node keeps this label at "{text}"')
    annotations: dict[str, str] = metadata.get("annotations", {})
    _check_annotations(annotations, report)
    taints = tuple(taint_of(each) for each in spec.get("taints", []))
    check_taints(taints, ("spec", "taints"), report)
    _check(value, report)
    since = before.cordoned_since or now
    return replace(
        before,
        labels={key: text for key, text in labels.items() if key not in kept},
        annotations=annotations,
        taints=tuple(each for each in taints if each.key != UNSCHEDULABLE_KEY),
        cordoned_since=since if spec.get("unschedulable", False) else None,
    )


def taint_of(value: Mapping[str, str]) -> Taint:
    """A v1 Taint that has been read."""
    effect = value.get("effect")
    return Taint(
        value.get("key", ""),
        Effect(effect) if effect else Effect.NO_SCHEDULE,
        value.get("value", ""),
        value.get("timeAdded", ""),
    )


def status_settings_of(value: Json, wanted: Json, before: NodeInput, own: Iterable[str]) -> NodeInput:
    """The settings that make the node's status what a client wants: extended resources and conditions.

    Args:
        own: the resources and the conditions that the node itself tells of.

    Raises:
        HttpError: it wants to change something that the node itself tells.
    """
    report = _report(value)
    _refuse_others(value, wanted, "status", _STATUS_FIELDS, report)
    extended = _extended(value, wanted, before, frozenset(own), report)
    conditions = _conditions(value, wanted, frozenset(own), report)
    _check(value, report)
    return replace(before, extended=extended, conditions=conditions)


def _extended(
    value: Json, wanted: Json, before: NodeInput, own: frozenset[str], report: ManifestReport
) -> dict[str, int]:
    """A kubelet makes of a new capacity the same amount as allocatable; so does a change of allocatable alone."""
    amounts: dict[str, int] = {}
    for part in ("capacity", "allocatable"):
        there, asked = v1.mapping(value, "status", part), v1.mapping(wanted, "status", part)
        for name in sorted(there.keys() | asked.keys()):
            path: FieldPath = ("status", part, name)
            if asked.get(name) == there.get(name):
                continue
            if name in own:
                report.problem(path, "Forbidden: the node itself tells it, or a plugin does")
            elif not is_extended_resource(name):
                report.problem(path, "Forbidden: only extended resources can be advertised, such as example.com/foo")
            elif part == "capacity" or name not in amounts:
                amounts[name] = _amount(asked.get(name), path, report)
    kept = {name: amount for name, amount in before.extended.items() if name not in amounts}
    wanted_names = v1.mapping(wanted, "status", "capacity").keys()
    return {name: amount for name, amount in {**kept, **amounts}.items() if name in wanted_names}


def _amount(text: object, path: FieldPath, report: ManifestReport) -> int:
    if text is None:
        return 0
    try:
        amount = Quantity.parse(str(text))
    except InvalidQuantity as error:
        report.problem(path, str(error))
        return 0
    if not amount.is_whole or amount < Quantity.parse("0"):
        report.problem(path, f'Invalid value: "{text}": must be an integer')
        return 0
    return amount.to_int_ceil()


def _conditions(value: Json, wanted: Json, own: frozenset[str], report: ManifestReport) -> dict[str, Mapping[str, str]]:
    there = {str(each.get("type")): each for each in v1.objects(value, "status", "conditions")}
    asked = {str(each.get("type")): each for each in v1.objects(wanted, "status", "conditions")}
    for kind in own & (there.keys() | asked.keys()):
        if there.get(kind) != asked.get(kind):
            report.problem(("status", "conditions"), f"Forbidden: the condition {kind} is told by the node itself")
    others = {kind: each for kind, each in asked.items() if kind not in own}
    for kind, condition in others.items():
        if condition.get("status") not in ("True", "False", "Unknown") or not kind:
            report.problem(("status", "conditions"), f'Invalid value: the status of "{kind}" is True, False or Unknown')
    return {
        kind: {name: str(condition[name]) for name in _CONDITION_FIELDS if condition.get(name)}
        for kind, condition in others.items()
    }


def _check(value: Json, report: ManifestReport) -> None:
    problems = [FieldProblem(_cause(each.problem), each.field, each.problem) for each in report.problems]
    check_problems(NODES, v1.name(value), problems)


def _cause(problem: str) -> str:
    return next((cause for words, cause in _CAUSES.items() if problem.startswith(words)), "FieldValueTypeInvalid")


def _report(value: Json) -> ManifestReport:
    return ManifestReport(source=f"node {v1.name(value)}", mode=Strictness.STRICT)


def _refuse_others(value: Json, wanted: Json, part: str, writable: frozenset[str], report: ManifestReport) -> None:
    there, asked = v1.mapping(value, part), v1.mapping(wanted, part)
    for name in sorted((there.keys() | asked.keys()) - writable):
        if (there.get(name) or None) != (asked.get(name) or None):
            report.problem((part, name), "Forbidden: clients cannot change this field of the node")


def _check_annotations(annotations: Mapping[str, str], report: ManifestReport) -> None:
    for key in annotations:
        check_label_key(key.lower(), ("metadata", "annotations", key), report)
    if sum(len(key.encode()) + len(text.encode()) for key, text in annotations.items()) > MAX_ANNOTATIONS_BYTES:
        report.problem(("metadata", "annotations"), f"Too long: may not be more than {MAX_ANNOTATIONS_BYTES} bytes")
