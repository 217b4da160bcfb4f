"""Random plans: the same seed, length and kinds make the same steps, in every version that says nothing else here."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import Final

from plugbay.errors import UsageError
from plugbay.testing.chaos.steps import RANGES, ChaosStep, StepKind

LENGTH: Final = 20
_WEIGHTS: Final[Mapping[StepKind, int]] = {
    StepKind.RESTART: 3,
    StepKind.CRASH: 3,
    StepKind.ALLOCATE: 3,
    StepKind.PAUSE: 4,
    StepKind.CALM: 2,
    StepKind.CHECK: 4,
    StepKind.KILL: 2,
}
"""Others have 1."""
_DISTURBING: Final = frozenset({StepKind.SLOW, StepKind.HANG, StepKind.REFUSE})
_CALMING: Final = frozenset({StepKind.CALM, StepKind.CHECK})
ALWAYS: Final = frozenset({StepKind.PAUSE, StepKind.CALM, StepKind.CHECK})
"""Kinds that are not faults, and in every plan."""


def make_plan(
    seed: int, *, length: int = LENGTH, kinds: Collection[StepKind] = tuple(StepKind)
) -> tuple[ChaosStep, ...]:
    """The steps of a seed. ``calm`` comes only where it ends something."""
    dice = random.Random(seed)
    choices = [kind for kind in StepKind if kind in kinds or kind in ALWAYS]
    weights = [_WEIGHTS.get(kind, 1) for kind in choices]
    steps: list[ChaosStep] = []
    is_disturbed = False
    while len(steps) < length:
        [kind] = dice.choices(choices, weights)
        if kind is StepKind.CALM and not is_disturbed:
            continue
        is_disturbed = kind in _DISTURBING or (is_disturbed and kind not in _CALMING)
        steps.append(ChaosStep(kind, _amount(dice, kind)))
    return tuple(steps)


def kinds_of(names: Collection[str]) -> frozenset[StepKind]:
    """The kinds with these names; all of them for none.

    Raises:
        UsageError: there is no such kind, or it is no fault.
    """
    known = {kind.value: kind for kind in StepKind if kind not in ALWAYS}
    for name in names:
        if name not in known:
            raise UsageError(f'there is no fault "{name}"; choose from {", ".join(known)}')
    return frozenset(known[name] for name in names) or frozenset(known.values())


def _amount(dice: random.Random, kind: StepKind) -> float:
    if kind not in RANGES:
        return 0.0
    wanted = RANGES[kind]
    if wanted.is_whole:
        return dice.randint(int(wanted.low), int(wanted.high))
    return round(dice.uniform(wanted.low, wanted.high), 2)
