"""The changes that the placement of a pod which is there already allows. Pure.

Source: Kubernetes 1.36 ``pkg/apis/core/validation/validation.go``, ``ValidatePodUpdate``.
"""

from __future__ import annotations

from dataclasses import replace

from plugbay.model.placement import NodeTerm, Placement
from plugbay.model.taints import Toleration, with_default_tolerations


def updated_placement(before: Placement, wanted: Placement) -> tuple[Placement, Placement]:
    """The placement after a change, and ``wanted`` with what was filled in when the pod was made.

    They are equal if the change is allowed: tolerations are added, gates go, a gated pod is placed more narrowly.
    """
    after = before
    filled = replace(
        wanted,
        scheduler=wanted.scheduler or before.scheduler,
        priority=before.priority if wanted.priority is None else wanted.priority,
        priority_class=wanted.priority_class or before.priority_class,
        preemption=wanted.preemption or before.preemption,
    )
    if (tolerations := _more_tolerations(before.tolerations, wanted.tolerations)) is not None:
        after, filled = (replace(each, tolerations=tolerations) for each in (after, filled))
    if set(wanted.gates) <= set(before.gates):
        after = replace(after, gates=wanted.gates)
    if before.gates and before.node_selector.items() <= wanted.node_selector.items():
        after = replace(after, node_selector=wanted.node_selector)
    if before.gates and _is_narrower(before.node_terms, wanted.node_terms):
        after = replace(after, node_terms=wanted.node_terms)
    return (before, filled) if after == before else (after, filled)


def _more_tolerations(before: tuple[Toleration, ...], wanted: tuple[Toleration, ...]) -> tuple[Toleration, ...] | None:
    """All tolerations after the change; None if one would go."""
    asked = wanted if set(before) <= set(wanted) else with_default_tolerations(wanted)
    if not set(before) <= set(asked):
        return None
    return before if len(before) == len(asked) else asked


def _is_narrower(before: tuple[NodeTerm, ...] | None, wanted: tuple[NodeTerm, ...] | None) -> bool:
    if before is None or wanted is None:
        return before is None
    return len(before) == len(wanted) and all(
        set(one.labels) <= set(other.labels) and set(one.fields) <= set(other.fields)
        for one, other in zip(before, wanted, strict=True)
    )
