"""Where a pod may be placed, between v1 and our values: selectors, affinity, tolerations, spreading, priority.

Source: Kubernetes 1.36 ``api/core/v1/types.go``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypedDict

from plugbay.manifest.shapes import Anything, Field, ListOf, MapOf, Shape, Support, Table, Text, Whole
from plugbay.model.placement import (
    ANYWHERE,
    ORDINARY,
    Expression,
    InclusionPolicy,
    LabelSelector,
    NodeTerm,
    Placement,
    PodTerm,
    PreemptionPolicy,
    SpreadConstraint,
)
from plugbay.model.selectors import Operator
from plugbay.model.taints import Effect, Toleration, TolerationOperator

PLACEMENT_FIELDS: Final = (
    "affinity",
    "nodeSelector",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "schedulerName",
    "schedulingGates",
    "tolerations",
    "topologySpreadConstraints",
)
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_DO_NOT_SCHEDULE: Final = "DoNotSchedule"
_OPERATORS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
    "Gt": Operator.GREATER,
    "Lt": Operator.LESS,
}
_OPERATOR_NAMES: Final = {operator: name for name, operator in _OPERATORS.items()}


def _table(*required: str, **fields: Shape) -> Table:
    return Table({name: Field(Support.USED, shape) for name, shape in fields.items()}, required)


def _affinity(required: Shape) -> Table:
    """One kind of affinity; with one node a preference changes nothing, so it is only shown again."""
    return Table({_REQUIRED: Field(Support.USED, required), _PREFERRED: Field(Support.UNUSED, ListOf(Anything()))})


_TEXT: Final = Text()
_TEXTS: Final = ListOf(_TEXT)
_NODE_EXPRESSION: Final = _table("key", "operator", key=_TEXT, operator=Text(tuple(_OPERATORS)), values=_TEXTS)
_EXPRESSION: Final = _table("key", "operator", key=_TEXT, operator=Text(tuple(_OPERATORS)[:4]), values=_TEXTS)
SELECTOR: Final = _table(matchLabels=MapOf(_TEXT), matchExpressions=ListOf(_EXPRESSION))
_NODE_TERM: Final = _table(matchExpressions=ListOf(_NODE_EXPRESSION), matchFields=ListOf(_NODE_EXPRESSION))
_POD_TERM: Final = _table(
    labelSelector=SELECTOR,
    namespaces=_TEXTS,
    namespaceSelector=SELECTOR,
    topologyKey=_TEXT,
    matchLabelKeys=_TEXTS,
    mismatchLabelKeys=_TEXTS,
)
_POLICY: Final = Text(tuple(each.value for each in InclusionPolicy))
AFFINITY: Final = _table(
    nodeAffinity=_affinity(_table("nodeSelectorTerms", nodeSelectorTerms=ListOf(_NODE_TERM))),
    podAffinity=_affinity(ListOf(_POD_TERM)),
    podAntiAffinity=_affinity(ListOf(_POD_TERM)),
)
SPREAD: Final = _table(
    "maxSkew",
    "topologyKey",
    "whenUnsatisfiable",
    labelSelector=SELECTOR,
    matchLabelKeys=_TEXTS,
    maxSkew=Whole(),
    minDomains=Whole(),
    nodeAffinityPolicy=_POLICY,
    nodeTaintsPolicy=_POLICY,
    topologyKey=_TEXT,
    whenUnsatisfiable=Text((_DO_NOT_SCHEDULE, "ScheduleAnyway")),
)
TOLERATION: Final = _table(
    key=_TEXT,
    operator=Text(("", *(each.value for each in TolerationOperator))),
    value=_TEXT,
    effect=Text(("", *(each.value for each in Effect))),
    tolerationSeconds=Whole(),
)
TAINT: Final = _table(
    "key", "effect", key=_TEXT, value=_TEXT, effect=Text(tuple(each.value for each in Effect)), timeAdded=_TEXT
)
GATE: Final = _table("name", name=_TEXT)


class V1Expression(TypedDict, total=False):
    key: str
    operator: str
    values: list[str]


class V1LabelSelector(TypedDict, total=False):
    matchLabels: dict[str, str]
    matchExpressions: list[V1Expression]


class V1NodeTerm(TypedDict, total=False):
    matchExpressions: list[V1Expression]
    matchFields: list[V1Expression]


class V1NodeSelector(TypedDict, total=False):
    nodeSelectorTerms: list[V1NodeTerm]


class V1NodeAffinity(TypedDict, total=False):
    requiredDuringSchedulingIgnoredDuringExecution: V1NodeSelector


class V1PodTerm(TypedDict, total=False):
    labelSelector: V1LabelSelector
    namespaces: list[str]
    namespaceSelector: V1LabelSelector
    topologyKey: str
    matchLabelKeys: list[str]
    mismatchLabelKeys: list[str]


class V1PodAffinity(TypedDict, total=False):
    requiredDuringSchedulingIgnoredDuringExecution: list[V1PodTerm]


class V1Affinity(TypedDict, total=False):
    nodeAffinity: V1NodeAffinity
    podAffinity: V1PodAffinity
    podAntiAffinity: V1PodAffinity


class V1Toleration(TypedDict, total=False):
    key: str
    operator: str
    value: str
    effect: str
    tolerationSeconds: int


class V1SpreadConstraint(TypedDict, total=False):
    labelSelector: V1LabelSelector
    matchLabelKeys: list[str]
    maxSkew: int
    minDomains: int
    nodeAffinityPolicy: str
    nodeTaintsPolicy: str
    topologyKey: str
    whenUnsatisfiable: str


class V1Gate(TypedDict, total=False):
    name: str


class V1Placement(TypedDict, total=False):
    """The fields of a PodSpec that say where the pod may be."""

    affinity: V1Affinity
    nodeSelector: dict[str, str]
    preemptionPolicy: str
    priority: int
    priorityClassName: str
    schedulerName: str
    schedulingGates: list[V1Gate]
    tolerations: list[V1Toleration]
    topologySpreadConstraints: list[V1SpreadConstraint]


def placement_of(v1: V1Placement) -> Placement:
    """Read the fields of a PodSpec. Pods that are placed as most are share one value."""
    if not v1.keys() & PLACEMENT_FIELDS:
        return ANYWHERE
    affinity = v1.get("affinity", {})
    node_affinity = affinity.get("nodeAffinity", {})
    terms: tuple[NodeTerm, ...] | None = None
    if (required := node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")) is not None:
        terms = tuple(_node_term(each) for each in required.get("nodeSelectorTerms", []))
    placement = Placement(
        node_selector=v1.get("nodeSelector", {}),
        node_terms=terms,
        near=_pod_terms(affinity.get("podAffinity", {})),
        apart=_pod_terms(affinity.get("podAntiAffinity", {})),
        tolerations=tuple(_toleration(each) for each in v1.get("tolerations", [])),
        spread=tuple(_spread(each) for each in v1.get("topologySpreadConstraints", [])),
        gates=tuple(each.get("name", "") for each in v1.get("schedulingGates", [])),
        scheduler=v1.get("schedulerName", ""),
        priority=v1.get("priority"),
        priority_class=v1.get("priorityClassName", ""),
        preemption=PreemptionPolicy(v1["preemptionPolicy"]) if v1.get("preemptionPolicy") else None,
    )
    return ORDINARY if placement == ORDINARY else placement


def label_selector_of(v1: V1LabelSelector) -> LabelSelector:
    return LabelSelector(v1.get("matchLabels", {}), _expressions(v1.get("matchExpressions", [])))


def _expressions(v1: Iterable[V1Expression]) -> tuple[Expression, ...]:
    return tuple(
        Expression(
            each.get("key", ""),
            _OPERATORS.get(each.get("operator", ""), Operator.EXISTS),
            tuple(each.get("values", [])),
        )
        for each in v1
    )


def _node_term(v1: V1NodeTerm) -> NodeTerm:
    return NodeTerm(_expressions(v1.get("matchExpressions", [])), _expressions(v1.get("matchFields", [])))


def _pod_terms(v1: V1PodAffinity) -> tuple[PodTerm, ...]:
    return tuple(_pod_term(each) for each in v1.get("requiredDuringSchedulingIgnoredDuringExecution", []))


def _pod_term(v1: V1PodTerm) -> PodTerm:
    return PodTerm(
        selector=label_selector_of(v1["labelSelector"]) if "labelSelector" in v1 else None,
        topology=v1.get("topologyKey", ""),
        namespaces=tuple(v1.get("namespaces", [])),
        namespace_selector=label_selector_of(v1["namespaceSelector"]) if "namespaceSelector" in v1 else None,
        match_keys=tuple(v1.get("matchLabelKeys", [])),
        mismatch_keys=tuple(v1.get("mismatchLabelKeys", [])),
    )


def _toleration(v1: V1Toleration) -> Toleration:
    return Toleration(
        key=v1.get("key", ""),
        operator=TolerationOperator(v1["operator"]) if v1.get("operator") else None,
        value=v1.get("value", ""),
        effect=Effect(v1["effect"]) if v1.get("effect") else None,
        seconds=v1.get("tolerationSeconds"),
    )


def _spread(v1: V1SpreadConstraint) -> SpreadConstraint:
    return SpreadConstraint(
        max_skew=v1.get("maxSkew", 0),
        topology=v1.get("topologyKey", ""),
        selector=label_selector_of(v1["labelSelector"]) if "labelSelector" in v1 else None,
        min_domains=v1.get("minDomains"),
        node_affinity=InclusionPolicy(v1["nodeAffinityPolicy"]) if "nodeAffinityPolicy" in v1 else None,
        node_taints=InclusionPolicy(v1["nodeTaintsPolicy"]) if "nodeTaintsPolicy" in v1 else None,
        match_keys=tuple(v1.get("matchLabelKeys", [])),
        is_required=v1.get("whenUnsatisfiable", _DO_NOT_SCHEDULE) == _DO_NOT_SCHEDULE,
    )


# --- back to v1 -----------------------------------------------------------------------------------------------------


def placement_to_v1(placement: Placement) -> dict[str, object]:
    """The fields of a PodSpec; preferences are not among them."""
    if placement is ANYWHERE:
        return {}
    node_affinity: dict[str, object] = {}
    if placement.node_terms is not None:
        terms = [
            _written(matchExpressions=_expressions_to_v1(each.labels), matchFields=_expressions_to_v1(each.fields))
            for each in placement.node_terms
        ]
        node_affinity = {_REQUIRED: {"nodeSelectorTerms": terms}}
    priority = {} if placement.priority is None else {"priority": placement.priority}
    return priority | _written(
        affinity=_written(
            nodeAffinity=node_affinity,
            podAffinity=_written(**{_REQUIRED: [_pod_term_to_v1(each) for each in placement.near]}),
            podAntiAffinity=_written(**{_REQUIRED: [_pod_term_to_v1(each) for each in placement.apart]}),
        ),
        nodeSelector=dict(placement.node_selector),
        preemptionPolicy=placement.preemption.value if placement.preemption else None,
        priorityClassName=placement.priority_class,
        schedulerName=placement.scheduler,
        schedulingGates=[{"name": each} for each in placement.gates],
        tolerations=[_toleration_to_v1(each) for each in placement.tolerations],
        topologySpreadConstraints=[_spread_to_v1(each) for each in placement.spread],
    )


def label_selector_to_v1(selector: LabelSelector) -> dict[str, object]:
    return _written(matchLabels=dict(selector.labels), matchExpressions=_expressions_to_v1(selector.expressions))


def _expressions_to_v1(expressions: Iterable[Expression]) -> list[dict[str, object]]:
    return [
        _written(key=each.key, operator=_OPERATOR_NAMES[each.operator], values=list(each.values))
        for each in expressions
    ]


def _pod_term_to_v1(term: PodTerm) -> dict[str, object]:
    return {
        **_selector_to_v1("labelSelector", term.selector),
        **_selector_to_v1("namespaceSelector", term.namespace_selector),
        **_written(
            namespaces=list(term.namespaces),
            topologyKey=term.topology,
            matchLabelKeys=list(term.match_keys),
            mismatchLabelKeys=list(term.mismatch_keys),
        ),
    }


def _selector_to_v1(name: str, selector: LabelSelector | None) -> dict[str, object]:
    """An empty selector is written: it means something else than none."""
    return {} if selector is None else {name: label_selector_to_v1(selector)}


def _toleration_to_v1(toleration: Toleration) -> dict[str, object]:
    seconds = {} if toleration.seconds is None else {"tolerationSeconds": toleration.seconds}
    return seconds | _written(
        key=toleration.key,
        operator=toleration.operator.value if toleration.operator else None,
        value=toleration.value,
        effect=toleration.effect.value if toleration.effect else None,
    )


def _spread_to_v1(spread: SpreadConstraint) -> dict[str, object]:
    return {
        **_selector_to_v1("labelSelector", spread.selector),
        **_written(
            matchLabelKeys=list(spread.match_keys),
            maxSkew=spread.max_skew,
            minDomains=spread.min_domains,
            nodeAffinityPolicy=spread.node_affinity.value if spread.node_affinity else None,
            nodeTaintsPolicy=spread.node_taints.value if spread.node_taints else None,
            topologyKey=spread.topology,
            whenUnsatisfiable=_DO_NOT_SCHEDULE if spread.is_required else "ScheduleAnyway",
        ),
    }


def _written(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value}
