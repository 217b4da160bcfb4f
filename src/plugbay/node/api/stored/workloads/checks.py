"""The checks of an API server, of objects whose defaults are filled in. Pure.

Source: Kubernetes 1.36 ``pkg/apis/apps/validation/validation.go``, ``pkg/apis/batch/validation/validation.go``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from plugbay.documents import Json
from plugbay.errors import InvalidManifest
from plugbay.manifest import pod_from_v1
from plugbay.manifest.label_selectors import check_label_selector, selector_of
from plugbay.manifest.report import ManifestReport, Strictness
from plugbay.model.selectors import selects
from plugbay.node.api.stored.workloads.jobs import job_problems
from plugbay.objects.problems import FieldProblem, forbidden, invalid, not_supported, required
from plugbay.printers import v1

_NEGATIVE: Final = "must be greater than or equal to 0"
_IMMUTABLE: Final = "field is immutable"
_PERCENT: Final = re.compile(r"[0-9]+%")
_REASONS: Final = {
    "Required value": "FieldValueRequired",
    "Unsupported value": "FieldValueNotSupported",
    "Forbidden": "FieldValueForbidden",
    "Duplicate value": "FieldValueDuplicate",
    "Too long": "FieldValueTooLong",
}


def check_replica_set(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    yield from _common_problems(value, before, "ReplicaSet")
    yield from _numbers(value, "replicas", "minReadySeconds")


def check_deployment(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    yield from _common_problems(value, before, "Deployment")
    yield from _numbers(value, "replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    deadline = v1.at(value, "spec", "progressDeadlineSeconds")
    if isinstance(deadline, int) and deadline <= v1.number(value, "spec", "minReadySeconds"):
        yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
    strategy = v1.mapping(value, "spec", "strategy")
    match strategy.get("type"):
        case "Recreate":
            if strategy.get("rollingUpdate"):
                why = "may not be specified when strategy `type` is 'Recreate'"
                yield forbidden("spec.strategy.rollingUpdate", why)
        case "RollingUpdate":
            yield from _rolling_problems(strategy, "spec.strategy.rollingUpdate")
        case kind:
            yield not_supported("spec.strategy.type", str(kind), ("Recreate", "RollingUpdate"))


def check_daemon_set(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    yield from _common_problems(value, before, "DaemonSet")
    yield from _numbers(value, "minReadySeconds", "revisionHistoryLimit")
    strategy = v1.mapping(value, "spec", "updateStrategy")
    match strategy.get("type"):
        case "OnDelete":
            pass
        case "RollingUpdate":
            where = "spec.updateStrategy.rollingUpdate"
            yield from _rolling_problems(strategy, where)
            surge = v1.at(strategy, "rollingUpdate", "maxSurge")
            unavailable = v1.at(strategy, "rollingUpdate", "maxUnavailable")
            if surge not in (0, "0%") and unavailable not in (0, "0%"):
                yield invalid(f"{where}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
        case kind:
            yield not_supported("spec.updateStrategy.type", str(kind), ("OnDelete", "RollingUpdate"))


def check_revision(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    if before is not None and value.get("data") != before.get("data"):
        yield invalid("data", value.get("data"), _IMMUTABLE)


def check_job(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    yield from _selector_problems(value, before)
    yield from _template_problems(value)
    yield from job_problems(value, before)


def _common_problems(value: Json, before: Json | None, kind: str) -> Iterator[FieldProblem]:
    yield from _selector_problems(value, before)
    yield from _template_problems(value)
    policy = v1.text(value, "spec", "template", "spec", "restartPolicy")
    if policy not in ("", "Always"):
        yield not_supported("spec.template.spec.restartPolicy", policy, ("Always",))
    if v1.at(value, "spec", "template", "spec", "activeDeadlineSeconds") is not None:
        why = f"activeDeadlineSeconds in {kind} is not Supported"
        yield forbidden("spec.template.spec.activeDeadlineSeconds", why)


def _selector_problems(value: Json, before: Json | None) -> Iterator[FieldProblem]:
    selector = v1.mapping(value, "spec", "selector")
    if not selector:
        yield required("spec.selector")
        return
    report = ManifestReport(source="", mode=Strictness.STRICT)
    check_label_selector(selector, ("spec", "selector"), report)
    yield from (_field_problem(each, "") for each in report.problems)
    if not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield invalid("spec.selector", selector, "empty selector is invalid for deployment")
    elif not report.problems:
        labels = v1.mapping(value, "spec", "template", "metadata", "labels")
        if not selects(selector_of(selector), {key: str(text) for key, text in labels.items()}):
            yield invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    if before is not None and selector != v1.mapping(before, "spec", "selector"):
        yield invalid("spec.selector", selector, _IMMUTABLE)


def _template_problems(value: Json) -> Iterator[FieldProblem]:
    template = v1.mapping(value, "spec", "template")
    if not template:
        yield required("spec.template")
        return
    metadata = v1.mapping(template, "metadata")
    kept = {name: metadata[name] for name in ("labels", "annotations", "finalizers") if metadata.get(name)}
    pod: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**kept, "name": "p", "namespace": v1.namespace(value) or "default"},
        "spec": template.get("spec", {}),
    }
    try:
        pod_from_v1(pod)
    except InvalidManifest as error:
        yield from (_field_problem(each, "spec.template.") for each in (error, *error.more))


def _field_problem(problem: InvalidManifest, prefix: str) -> FieldProblem:
    reason = _REASONS.get(problem.problem.partition(":")[0], "FieldValueInvalid")
    return FieldProblem(reason, f"{prefix}{problem.field}", problem.problem)


def _numbers(value: Json, *names: str) -> Iterator[FieldProblem]:
    for name in names:
        number = v1.at(value, "spec", name)
        if isinstance(number, int) and number < 0:
            yield invalid(f"spec.{name}", number, _NEGATIVE)


def _rolling_problems(strategy: Json, where: str) -> Iterator[FieldProblem]:
    rolling = v1.mapping(strategy, "rollingUpdate")
    amounts = []
    for name in ("maxUnavailable", "maxSurge"):
        amount = rolling.get(name)
        if isinstance(amount, str) and _PERCENT.fullmatch(amount):
            share = int(amount[:-1])
            if name == "maxUnavailable" and share > 100:
                yield invalid(f"{where}.{name}", amount, "must not be greater than 100%")
            amounts.append(share)
        elif isinstance(amount, int) and not isinstance(amount, bool):
            if amount < 0:
                yield invalid(f"{where}.{name}", amount, _NEGATIVE)
            amounts.append(amount)
        else:
            rule = "a valid percent string must be a numeric string followed by an ending '%'"
            yield invalid(f"{where}.{name}", amount, rule)
    if amounts == [0, 0]:
        yield invalid(f"{where}.maxUnavailable", rolling.get("maxUnavailable"), "may not be 0 when `maxSurge` is 0")
