"""The checks of Jobs beyond those of every kind that makes pods. Pure.

Source: Kubernetes 1.36 ``pkg/apis/batch/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugbay.documents import Json
from plugbay.objects.problems import FieldProblem, forbidden, invalid, not_supported, required
from plugbay.printers import v1

_NEGATIVE: Final = "must be greater than or equal to 0"
_MAX_INDEXED: Final = 100_000
_NOT_YET: Final = ("successPolicy", "backoffLimitPerIndex", "maxFailedIndexes", "managedBy")
_ACTIONS: Final = ("Count", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_MODES: Final = ("Indexed", "NonIndexed")
_REPLACEMENTS: Final = ("Failed", "TerminatingOrFailed")


def job_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    """Everything but the selector and the template, which all kinds have."""
    spec = v1.mapping(value, "spec")
    for name in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"):
        if isinstance(number := spec.get(name), int) and number < 0:
            yield invalid(f"spec.{name}", number, _NEGATIVE)
    for name in _NOT_YET:
        if spec.get(name):
            yield forbidden(f"spec.{name}", "not supported by plugbay's node yet")
    policy = v1.text(spec, "template", "spec", "restartPolicy")
    if policy not in ("Never", "OnFailure"):
        yield FieldProblem(
            "FieldValueRequired" if policy == "Always" else "FieldValueNotSupported",
            "spec.template.spec.restartPolicy",
            'Required value: valid values: "OnFailure", "Never"'
            if policy == "Always"
            else f'Unsupported value: "{policy}": supported values: "OnFailure", "Never"',
        )
    yield from _mode_problems(spec)
    yield from _policy_problems(spec, policy)
    if before is not None:
        yield from _immutable_problems(spec, v1.mapping(before, "spec"))


def _mode_problems(spec: Json) -> Iterator[FieldProblem]:
    mode = v1.text(spec, "completionMode")
    if mode not in _MODES:
        yield not_supported("spec.completionMode", mode, _MODES)
    elif mode == "Indexed":
        if spec.get("completions") is None:
            yield required("spec.completions", "when completion mode is Indexed")
        elif v1.number(spec, "completions") > _MAX_INDEXED or v1.number(spec, "parallelism") > _MAX_INDEXED:
            yield invalid("spec.parallelism", spec.get("parallelism"), f"must be less than or equal to {_MAX_INDEXED}")
    replacement = v1.text(spec, "podReplacementPolicy")
    if replacement not in _REPLACEMENTS:
        yield not_supported("spec.podReplacementPolicy", replacement, _REPLACEMENTS)
    elif spec.get("podFailurePolicy") and replacement != "Failed":
        yield not_supported("spec.podReplacementPolicy", replacement, ("Failed",))


def _policy_problems(spec: Json, policy: str) -> Iterator[FieldProblem]:
    if not spec.get("podFailurePolicy"):
        return
    if policy != "Never":
        why = 'only "Never" is supported when podFailurePolicy is specified'
        yield invalid("spec.template.spec.restartPolicy", policy, why)
    names = {v1.text(each, "name") for each in v1.objects(spec, "template", "spec", "containers")}
    names |= {v1.text(each, "name") for each in v1.objects(spec, "template", "spec", "initContainers")}
    for index, rule in enumerate(v1.objects(spec, "podFailurePolicy", "rules")):
        where = f"spec.podFailurePolicy.rules[{index}]"
        if (action := v1.text(rule, "action")) not in _ACTIONS:
            if action:
                yield not_supported(f"{where}.action", action, _ACTIONS)
            else:
                yield required(f"{where}.action", f"valid values: {', '.join(_ACTIONS)}")
        exits, conditions = v1.mapping(rule, "onExitCodes"), v1.objects(rule, "onPodConditions")
        if bool(exits) == bool(conditions):
            yield invalid(where, rule, "specifying one of OnExitCodes and OnPodConditions is required")
        if exits:
            yield from _exit_problems(exits, f"{where}.onExitCodes", names)


def _exit_problems(exits: Json, where: str, names: set[str]) -> Iterator[FieldProblem]:
    if (operator := v1.text(exits, "operator")) not in _OPERATORS:
        yield not_supported(f"{where}.operator", operator, _OPERATORS)
    values = exits.get("values")
    if not isinstance(values, list) or not values:
        yield invalid(f"{where}.values", values, "at least one value is required")
    elif operator == "In" and 0 in values:
        yield invalid(f"{where}.values[{values.index(0)}]", 0, "must not be 0 for the In operator")
    if (name := v1.text(exits, "containerName")) and name not in names:
        rule = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{where}.containerName", name, rule)


def _immutable_problems(spec: Json, before: Json) -> Iterator[FieldProblem]:
    names = ["completionMode", "podFailurePolicy", "manualSelector", "template"]
    if v1.text(before, "completionMode") != "Indexed" or spec.get("completions") != spec.get("parallelism"):
        names.append("completions")
    for name in names:
        if spec.get(name) != before.get(name):
            yield invalid(f"spec.{name}", spec.get(name), "field is immutable")
