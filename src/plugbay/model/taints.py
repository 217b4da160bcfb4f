"""Taints of a node, and the tolerations of pods. Pure.

Source: Kubernetes 1.36 ``component-helpers/scheduling/corev1/helpers.go``, ``api/core/v1/toleration.go``,
``plugin/pkg/admission/defaulttolerationseconds/admission.go``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum
from typing import Final

from plugbay.values import dataclass

UNSCHEDULABLE_KEY: Final = "node.kubernetes.io/unschedulable"
"""The key of the taint that a cordoned node has."""
_DEFAULT_SECONDS: Final = 300


class Effect(Enum):
    """The consequence of a taint for pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


KEEPS_AWAY: Final = frozenset({Effect.NO_SCHEDULE, Effect.NO_EXECUTE})
"""The effects that keep a scheduler from binding a pod; with one node, a preference changes nothing."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint; ``added`` is v1's ``timeAdded`` as it was written, or empty."""

    key: str
    effect: Effect
    value: str = ""
    added: str = ""

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect.value}" if self.value else f"{self.key}:{self.effect.value}"


class TolerationOperator(Enum):
    EQUAL = "Equal"
    EXISTS = "Exists"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration, as written.

    Attributes:
        key: empty for all keys.
        operator: None is `TolerationOperator.EQUAL`.
        effect: None is for all effects.
        seconds: how long a taint that drives pods away is tolerated; None is for ever.
    """

    key: str = ""
    operator: TolerationOperator | None = None
    value: str = ""
    effect: Effect | None = None
    seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        if self.effect not in (None, taint.effect) or (self.key and self.key != taint.key):
            return False
        return self.operator is TolerationOperator.EXISTS or self.value == taint.value


def _default(key: str) -> Toleration:
    return Toleration(key, TolerationOperator.EXISTS, effect=Effect.NO_EXECUTE, seconds=_DEFAULT_SECONDS)


_NOT_READY: Final = _default("node.kubernetes.io/not-ready")
_UNREACHABLE: Final = _default("node.kubernetes.io/unreachable")
DEFAULT_TOLERATIONS: Final = (_NOT_READY, _UNREACHABLE)
"""The tolerations that an API server gives to pods that say nothing about these taints."""
TOLERATES_ANY_EVICTION: Final = Toleration(operator=TolerationOperator.EXISTS, effect=Effect.NO_EXECUTE)
"""The toleration that a kubelet gives to its static pods."""


def with_default_tolerations(tolerations: tuple[Toleration, ...]) -> tuple[Toleration, ...]:
    """``tolerations`` with those that an API server adds."""
    if not tolerations:
        return DEFAULT_TOLERATIONS
    added = tuple(each for each in DEFAULT_TOLERATIONS if not _speaks_of(each, tolerations))
    return tolerations + added


def _speaks_of(wanted: Toleration, tolerations: Iterable[Toleration]) -> bool:
    return any(each.key in ("", wanted.key) and each.effect in (None, wanted.effect) for each in tolerations)


def untolerated(
    taints: Iterable[Taint], tolerations: Collection[Toleration], effects: Collection[Effect]
) -> Taint | None:
    """The first taint with one of ``effects`` that nothing tolerates."""
    for taint in taints:
        if taint.effect in effects and not any(each.tolerates(taint) for each in tolerations):
            return taint
    return None


def tolerated_for_s(taints: Iterable[Taint], tolerations: Collection[Toleration]) -> float | None:
    """How long a pod may stay with those taints that drive pods away; 0 is not at all, None is for ever."""
    shortest: float | None = None
    for taint in taints:
        if taint.effect is not Effect.NO_EXECUTE:
            continue
        matching = [each for each in tolerations if each.tolerates(taint)]
        if not matching:
            return 0.0
        for toleration in matching:
            if toleration.seconds is not None:
                limit = float(max(0, toleration.seconds))
                shortest = limit if shortest is None else min(shortest, limit)
    return shortest
