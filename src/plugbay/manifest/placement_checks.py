"""The API server's checks of where a pod may be placed, in its words where it has some.

Source: Kubernetes 1.36 ``pkg/apis/core/validation/validation.go``, ``pkg/apis/scheduling/types.go``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from plugbay.manifest.report import ManifestReport
from plugbay.manifest.resource_checks import invalid
from plugbay.model import dns
from plugbay.model.field_path import FieldPath
from plugbay.model.placement import ANYWHERE, Expression, LabelSelector, Placement, PodTerm, SpreadConstraint
from plugbay.model.selectors import Operator
from plugbay.model.taints import Effect, Taint, Toleration, TolerationOperator

_SPEC: Final[FieldPath] = ("spec",)
_AFFINITY: Final[FieldPath] = (*_SPEC, "affinity")
_REQUIRED_TERMS: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_MISSING: Final = "Required value"
_WHOLE_SET: Final = "must be specified when `operator` is 'In' or 'NotIn'"
_NO_SET: Final = "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
_KEY_RULE: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character"
)


def check_placement(placement: Placement, report: ManifestReport, *, node_name: str | None) -> None:
    """Report what an API server would refuse; ``node_name`` is the node that the pod names itself."""
    if placement is ANYWHERE:
        return
    for key, value in placement.node_selector.items():
        check_label_key(key, (*_SPEC, "nodeSelector", key), report)
        check_label_value(value, (*_SPEC, "nodeSelector", key), report)
    _check_node_terms(placement, report)
    for kind, terms in (("podAffinity", placement.near), ("podAntiAffinity", placement.apart)):
        for index, term in enumerate(terms):
            _check_pod_term(term, (*_AFFINITY, kind, _REQUIRED_TERMS, index), report)
    for index, toleration in enumerate(placement.tolerations):
        _check_toleration(toleration, (*_SPEC, "tolerations", index), report)
    for index, constraint in enumerate(placement.spread):
        _check_spread(constraint, (*_SPEC, "topologySpreadConstraints", index), report)
    _check_gates(placement.gates, report, node_name=node_name)
    for name, text in (("priorityClassName", placement.priority_class), ("schedulerName", placement.scheduler)):
        if text and not dns.is_subdomain(text):
            report.problem((*_SPEC, name), invalid(text, "must be a lowercase RFC 1123 subdomain"))


def check_taints(taints: Iterable[Taint], path: FieldPath, report: ManifestReport) -> None:
    """Report what an API server would refuse of a node's taints."""
    seen: set[tuple[str, Effect]] = set()
    for index, taint in enumerate(taints):
        where = (*path, index)
        check_label_key(taint.key, (*where, "key"), report)
        check_label_value(taint.value, (*where, "value"), report)
        if (taint.key, taint.effect) in seen:
            report.problem(where, f'Duplicate value: "{taint}": taints must be unique by key and effect pair')
        seen.add((taint.key, taint.effect))


def check_label_key(key: str, path: FieldPath, report: ManifestReport) -> None:
    """A name with an optional DNS prefix before a slash."""
    prefix, slash, name = key.rpartition("/")
    if not key:
        report.problem(path, _MISSING)
    elif (slash and not dns.is_subdomain(prefix)) or not dns.is_name(name):
        report.problem(path, invalid(key, _KEY_RULE))


def check_label_value(value: str, path: FieldPath, report: ManifestReport) -> None:
    if value and not dns.is_name(value):
        report.problem(path, invalid(value, _VALUE_RULE))


def _check_node_terms(placement: Placement, report: ManifestReport) -> None:
    where = (*_AFFINITY, "nodeAffinity", _REQUIRED_TERMS, "nodeSelectorTerms")
    if placement.node_terms is None:
        return
    if not placement.node_terms:
        report.problem(where, f"{_MISSING}: must have at least one node selector term")
    for index, term in enumerate(placement.node_terms):
        _check_expressions(term.labels, (*where, index, "matchExpressions"), report)
        for number, expression in enumerate(term.fields):
            _check_field(expression, (*where, index, "matchFields", number), report)


def _check_field(expression: Expression, path: FieldPath, report: ManifestReport) -> None:
    if expression.key != "metadata.name":
        report.problem((*path, "key"), invalid(expression.key, "not a valid field selector key"))
    elif expression.operator not in (Operator.IN, Operator.NOT_IN):
        report.problem((*path, "operator"), "Unsupported value: a field has only the operators In and NotIn")
    elif len(expression.values) != 1 and report.is_sound((*path, "values")):
        report.problem((*path, "values"), f"{_MISSING}: must be only one value when `operator` is 'In' or 'NotIn'")


def _check_expressions(expressions: Iterable[Expression], path: FieldPath, report: ManifestReport) -> None:
    for index, expression in enumerate(expressions):
        where = (*path, index)
        check_label_key(expression.key, (*where, "key"), report)
        match expression.operator:
            case Operator.IN | Operator.NOT_IN:
                if not expression.values and report.is_sound((*where, "values")):
                    report.problem((*where, "values"), f"{_MISSING}: {_WHOLE_SET}")
                for number, value in enumerate(expression.values):
                    check_label_value(value, (*where, "values", number), report)
            case Operator.EXISTS | Operator.DOES_NOT_EXIST:
                if expression.values and report.is_sound((*where, "operator")):
                    report.problem((*where, "values"), _NO_SET)
            case Operator.GREATER | Operator.LESS:
                if len(expression.values) != 1 and report.is_sound((*where, "values")):
                    rule = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                    report.problem((*where, "values"), f"{_MISSING}: {rule}")
                elif expression.values and not _is_integer(expression.values[0]):
                    report.problem((*where, "values", 0), invalid(expression.values[0], "must be an integer"))


def _is_integer(text: str) -> bool:
    digits = text.removeprefix("-").removeprefix("+")
    return digits.isascii() and digits.isdigit() and len(digits) <= 18


def _check_selector(selector: LabelSelector | None, path: FieldPath, report: ManifestReport) -> None:
    if selector is None:
        return
    for key, value in selector.labels.items():
        check_label_key(key, (*path, "matchLabels", key), report)
        check_label_value(value, (*path, "matchLabels", key), report)
    _check_expressions(selector.expressions, (*path, "matchExpressions"), report)


def _check_pod_term(term: PodTerm, path: FieldPath, report: ManifestReport) -> None:
    _check_topology(term.topology, path, report)
    _check_selector(term.selector, (*path, "labelSelector"), report)
    _check_selector(term.namespace_selector, (*path, "namespaceSelector"), report)
    for index, namespace in enumerate(term.namespaces):
        if not dns.is_label(namespace):
            report.problem((*path, "namespaces", index), invalid(namespace, "must be a lowercase RFC 1123 label"))
    for name, keys in (("matchLabelKeys", term.match_keys), ("mismatchLabelKeys", term.mismatch_keys)):
        _check_keys(keys, (*path, name), report, has_selector=term.selector is not None)


def _check_keys(keys: Iterable[str], path: FieldPath, report: ManifestReport, *, has_selector: bool) -> None:
    for index, key in enumerate(keys):
        check_label_key(key, (*path, index), report)
        if not has_selector:
            report.problem(path, "Forbidden: must not be specified when labelSelector is not set")


def _check_topology(key: str, path: FieldPath, report: ManifestReport) -> None:
    if not key:
        report.problem((*path, "topologyKey"), f"{_MISSING}: can not be empty")
    else:
        check_label_key(key, (*path, "topologyKey"), report)


def _check_toleration(toleration: Toleration, path: FieldPath, report: ManifestReport) -> None:
    if toleration.key:
        check_label_key(toleration.key, (*path, "key"), report)
    elif toleration.operator is not TolerationOperator.EXISTS:
        rule = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        report.problem((*path, "operator"), invalid(_operator(toleration), rule))
    if toleration.operator is TolerationOperator.EXISTS:
        if toleration.value:
            rule = "value must be empty when `operator` is 'Exists'"
            report.problem((*path, "operator"), invalid(toleration.value, rule))
    else:
        check_label_value(toleration.value, (*path, "value"), report)
    if toleration.seconds is not None and toleration.effect is not Effect.NO_EXECUTE:
        rule = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        report.problem((*path, "effect"), invalid(toleration.effect.value if toleration.effect else "", rule))


def _operator(toleration: Toleration) -> str:
    return toleration.operator.value if toleration.operator else ""


def _check_spread(constraint: SpreadConstraint, path: FieldPath, report: ManifestReport) -> None:
    if constraint.max_skew <= 0:
        report.problem((*path, "maxSkew"), invalid(constraint.max_skew, "must be greater than zero"))
    _check_topology(constraint.topology, path, report)
    if constraint.min_domains is not None:
        if constraint.min_domains <= 0:
            report.problem((*path, "minDomains"), invalid(constraint.min_domains, "must be greater than zero"))
        elif not constraint.is_required:
            rule = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"
            report.problem((*path, "minDomains"), invalid(constraint.min_domains, rule))
    _check_selector(constraint.selector, (*path, "labelSelector"), report)
    where = (*path, "matchLabelKeys")
    _check_keys(constraint.match_keys, where, report, has_selector=constraint.selector is not None)


def _check_gates(gates: tuple[str, ...], report: ManifestReport, *, node_name: str | None) -> None:
    for index, name in enumerate(gates):
        where = (*_SPEC, "schedulingGates", index)
        check_label_key(name, (*where, "name"), report)
        if name in gates[:index]:
            report.problem(where, f'Duplicate value: "{name}"')
    if gates and node_name is not None:
        report.problem((*_SPEC, "nodeName"), "Forbidden: cannot be set until all schedulingGates have been cleared")
