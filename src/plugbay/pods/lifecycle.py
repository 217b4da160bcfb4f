"""The life of a pod on this node as a table; a missing entry is the error."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class PodStage(Enum):
    """How far a pod has come."""

    UNSCHEDULED = "unscheduled"
    BOUND = "bound"
    """The pod has its place on the node, and perhaps already its devices."""
    ACTIVE = "active"
    """Admitted: its containers run, start, or wait to be started again."""
    ENDED = "ended"
    """The pod succeeded, failed or was rejected. It holds nothing, and stays so that its status can be read."""
    TERMINATING = "terminating"
    """The pod was deleted; its containers are being stopped."""
    GONE = "gone"
    """Nothing is left of the deleted pod but finalizers, if it has any."""


class PodStep(Enum):
    """A step in the life of a pod."""

    BIND = "bind"
    ADMIT = "admit"
    REJECT = "reject"
    FINISH = "finish"
    DELETE = "delete"
    DISPOSE = "dispose"


TRANSITIONS: Final[Mapping[PodStage, Mapping[PodStep, PodStage]]] = {
    PodStage.UNSCHEDULED: {PodStep.BIND: PodStage.BOUND, PodStep.DELETE: PodStage.TERMINATING},
    PodStage.BOUND: {
        PodStep.ADMIT: PodStage.ACTIVE,
        PodStep.REJECT: PodStage.ENDED,
        PodStep.DELETE: PodStage.TERMINATING,
    },
    # A restarted node admits its active pods again, and may have to reject one.
    PodStage.ACTIVE: {
        PodStep.ADMIT: PodStage.ACTIVE,
        PodStep.REJECT: PodStage.ENDED,
        PodStep.FINISH: PodStage.ENDED,
        PodStep.DELETE: PodStage.TERMINATING,
    },
    PodStage.ENDED: {PodStep.DELETE: PodStage.TERMINATING},
    # A second deletion may shorten the grace period.
    PodStage.TERMINATING: {PodStep.DELETE: PodStage.TERMINATING, PodStep.DISPOSE: PodStage.GONE},
    PodStage.GONE: {},
}

HOLDS_RESOURCES: Final = frozenset({PodStage.BOUND, PodStage.ACTIVE, PodStage.TERMINATING})
"""Stages in which a bound pod counts against what the node can give."""


def advance(stage: PodStage, step: PodStep) -> PodStage:
    """The stage after ``step``.

    Raises:
        ValueError: this cannot happen to a pod in ``stage``; a fault of ours.
    """
    try:
        return TRANSITIONS[stage][step]
    except KeyError:
        raise ValueError(f"a pod that is {stage.value} cannot {step.value}") from None
