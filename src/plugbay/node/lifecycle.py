"""The life of a pod on this node as a table; a missing entry is the error."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class Stage(Enum):
    """How far a pod has come."""

    UNSCHEDULED = "unscheduled"
    BOUND = "bound"
    """It has its place on the node, and perhaps already its devices."""
    ACTIVE = "active"
    """Admitted: its containers run, start, or wait to be started again."""
    ENDED = "ended"
    """Succeeded, failed or rejected; it holds nothing and stays to be looked at."""
    TERMINATING = "terminating"
    """Somebody deleted it; its containers are being stopped."""
    GONE = "gone"


class Step(Enum):
    """What can happen to a pod."""

    BIND = "bind"
    ADMIT = "admit"
    REJECT = "reject"
    FINISH = "finish"
    DELETE = "delete"
    DISPOSE = "dispose"


TRANSITIONS: Final[Mapping[Stage, Mapping[Step, Stage]]] = {
    Stage.UNSCHEDULED: {Step.BIND: Stage.BOUND, Step.DELETE: Stage.TERMINATING},
    Stage.BOUND: {Step.ADMIT: Stage.ACTIVE, Step.REJECT: Stage.ENDED, Step.DELETE: Stage.TERMINATING},
    # A restarted node admits its active pods again, and may have to reject one.
    Stage.ACTIVE: {
        Step.ADMIT: Stage.ACTIVE,
        Step.REJECT: Stage.ENDED,
        Step.FINISH: Stage.ENDED,
        Step.DELETE: Stage.TERMINATING,
    },
    Stage.ENDED: {Step.DELETE: Stage.TERMINATING},
    # A second deletion may shorten the grace period.
    Stage.TERMINATING: {Step.DELETE: Stage.TERMINATING, Step.DISPOSE: Stage.GONE},
    Stage.GONE: {},
}

HOLDS_RESOURCES: Final = frozenset({Stage.BOUND, Stage.ACTIVE, Stage.TERMINATING})
"""Stages in which a bound pod counts against what the node can give."""


def advance(stage: Stage, step: Step) -> Stage:
    """The stage after ``step``.

    Raises:
        ValueError: this cannot happen to a pod in ``stage``; a fault of ours.
    """
    try:
        return TRANSITIONS[stage][step]
    except KeyError:
        raise ValueError(f"a pod that is {stage.value} cannot {step.value}") from None
