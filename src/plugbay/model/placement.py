"""Where a pod wants to be, which pods it wants near it, and how important it is: values. Pure.

Source: Kubernetes 1.36 ``api/core/v1/types.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import Final

from plugbay.model.selectors import Operator, Requirement
from plugbay.model.taints import DEFAULT_TOLERATIONS, Toleration
from plugbay.values import dataclass

DEFAULT_SCHEDULER: Final = "default-scheduler"


@dataclass(frozen=True, slots=True)
class Expression:
    """A condition on one label or field, with its values in the order in which they were written."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        return Requirement(self.key, self.operator, frozenset(self.values)).holds(labels)


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """v1's LabelSelector, as written; without any condition it selects everything."""

    labels: Mapping[str, str] = field(default_factory=dict)
    expressions: tuple[Expression, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in self.labels.items()) and all(
            each.holds(labels) for each in self.expressions
        )


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One of several descriptions of a node, all of whose conditions have to hold; one without any fits no node.

    Attributes:
        fields: conditions on ``metadata.name``.
    """

    labels: tuple[Expression, ...] = ()
    fields: tuple[Expression, ...] = ()

    def holds(self, labels: Mapping[str, str], *, name: str) -> bool:
        if not (self.labels or self.fields):
            return False
        described = {"metadata.name": name}
        return all(each.holds(labels) for each in self.labels) and all(each.holds(described) for each in self.fields)


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Pods that another pod wants near it, or not.

    Attributes:
        selector: None selects no pod.
        topology: the label of nodes that says what near is.
        namespaces: together with those that ``namespace_selector`` selects; with neither, the pod's own.
        match_keys, mismatch_keys: labels in which the pods have to be like the pod that asks, or unlike it.
    """

    selector: LabelSelector | None
    topology: str
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_keys: tuple[str, ...] = ()
    mismatch_keys: tuple[str, ...] = ()


class InclusionPolicy(Enum):
    HONOR = "Honor"
    IGNORE = "Ignore"


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A limit on how unevenly pods lie on the values of a node's label.

    Attributes:
        is_required: whether it is ``DoNotSchedule``; another one is a preference, which changes nothing with one node.
    """

    max_skew: int
    topology: str
    selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity: InclusionPolicy | None = None
    node_taints: InclusionPolicy | None = None
    match_keys: tuple[str, ...] = ()
    is_required: bool = True


class PreemptionPolicy(Enum):
    LOWER = "PreemptLowerPriority"
    NEVER = "Never"


@dataclass(frozen=True, slots=True)
class Placement:
    """Everything that a scheduler asks of a pod besides its resources and ports.

    Attributes:
        node_terms: a node has to fit one of them; None for no condition.
        gates: while there is one, no scheduler looks at the pod.
        priority: None before the API server has filled it in.
        priority_class: the name of the class that ``priority`` comes from.
    """

    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_terms: tuple[NodeTerm, ...] | None = None
    near: tuple[PodTerm, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    gates: tuple[str, ...] = ()
    scheduler: str = ""
    priority: int | None = None
    priority_class: str = ""
    preemption: PreemptionPolicy | None = None


ANYWHERE: Final = Placement()
"""The placement of a pod that says nothing about it."""
ORDINARY: Final = Placement(
    tolerations=DEFAULT_TOLERATIONS, scheduler=DEFAULT_SCHEDULER, priority=0, preemption=PreemptionPolicy.LOWER
)
"""The same, as an API server fills it in; shared by all pods that have it."""
