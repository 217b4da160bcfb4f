"""The faults of a chaos run as values, and as lines of a file. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

from plugbay.errors import InvalidDocument
from plugbay.values import dataclass


class StepKind(Enum):
    """The kinds of steps; `RANGES` says what their amounts mean."""

    RESTART = "restart"
    """The kubelet stops in order and starts again."""
    CRASH = "crash"
    """The kubelet is killed, kubelet.sock stays as a file, and it starts again."""
    RESTART_KEEPING = "restart-keeping"
    """The kubelet stops and starts, and leaves the sockets of plugins alone."""
    REMOVE_SOCKETS = "remove-sockets"
    """The sockets of plugins are deleted; the kubelet runs on."""
    REMAKE_DIRECTORY = "remake-directory"
    """The kubelet stops, its directory is deleted and made anew, and it starts."""
    RESET_STREAMS = "reset-streams"
    """All streams of ListAndWatch are broken off."""
    RESET_CONNECTIONS = "reset-connections"
    """The connections under all streams break."""
    SLOW = "slow"
    """The kubelet's calls, its answers, and the lists that it reads, are late from now on."""
    HANG = "hang"
    """The kubelet answers no registration from now on."""
    REFUSE = "refuse"
    """The kubelet refuses the next registrations."""
    CALM = "calm"
    """``slow``, ``hang`` and ``refuse`` are over."""
    ALLOCATE = "allocate"
    """So many pods are admitted at a time, each with a device; the next steps do not wait for them."""
    FREEZE = "freeze"
    """The plugin's process gets SIGSTOP, and SIGCONT later."""
    KILL = "kill"
    """The plugin's process is killed, and started again."""
    TERMINATE = "terminate"
    """The plugin's process gets SIGTERM, and is started again when it has ended."""
    PAUSE = "pause"
    """Nothing happens."""
    CHECK = "check"
    """All faults end for the moment, and all has to be well; so it has to be after the last step."""


@dataclass(frozen=True, slots=True)
class AmountRange:
    """The amounts of a kind of step.

    Attributes:
        unit: what an amount counts.
        low, high: the least and the most that a plan has.
        is_whole: whether it is a whole number.
    """

    unit: str
    low: float
    high: float
    is_whole: bool = False


RANGES: Final[Mapping[StepKind, AmountRange]] = {
    StepKind.RESTART: AmountRange("seconds down", 0.0, 1.0),
    StepKind.CRASH: AmountRange("seconds down", 0.0, 1.0),
    StepKind.RESTART_KEEPING: AmountRange("seconds down", 0.0, 1.0),
    StepKind.REMAKE_DIRECTORY: AmountRange("seconds without it", 0.0, 1.0),
    StepKind.SLOW: AmountRange("seconds late", 0.05, 0.5),
    StepKind.REFUSE: AmountRange("refusals", 1, 3, is_whole=True),
    StepKind.ALLOCATE: AmountRange("pods", 2, 16, is_whole=True),
    StepKind.FREEZE: AmountRange("seconds", 0.1, 1.5),
    StepKind.PAUSE: AmountRange("seconds", 0.05, 0.5),
}
"""Kinds that are not listed have no amount."""
_MOST_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class ChaosStep:
    """One step; ``amount`` is 0 for kinds without one."""

    kind: StepKind
    amount: float = 0.0

    def __str__(self) -> str:
        return f"{self.kind.value} {self.amount:g}" if self.kind in RANGES else self.kind.value


def steps_text(steps: Iterable[ChaosStep], *, title: str = "") -> str:
    """The steps as a file, with a comment above them."""
    return "".join([f"# {title}\n" if title else "", *(f"{step}\n" for step in steps)])


def parse_steps(text: str, source: str) -> tuple[ChaosStep, ...]:
    """The steps of a file: one a line, with ``#`` before comments.

    Raises:
        InvalidDocument: a line is not a step.
    """
    steps = []
    for number, line in enumerate(text.splitlines(), start=1):
        if words := line.partition("#")[0].split():
            try:
                steps.append(_step(words))
            except ValueError as error:
                raise InvalidDocument(str(error), line=number, source=source) from error
    return tuple(steps)


def _step(words: list[str]) -> ChaosStep:
    name, *amounts = words
    known = {kind.value: kind for kind in StepKind}
    if name not in known:
        raise ValueError(f'"{name}" is not a step; steps are {", ".join(known)}')
    kind = known[name]
    if kind not in RANGES:
        if amounts:
            raise ValueError(f'"{name}" takes no amount, found "{" ".join(amounts)}"')
        return ChaosStep(kind)
    wanted = RANGES[kind]
    if len(amounts) != 1:
        raise ValueError(f'"{name}" takes one amount, the {wanted.unit}')
    return ChaosStep(kind, _amount(amounts[0], name, wanted))


def _amount(text: str, name: str, wanted: AmountRange) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 <= amount <= _MOST_S or (wanted.is_whole and amount != int(amount)):
        raise ValueError(f'"{name}" takes the {wanted.unit}, a number from 0 to {_MOST_S:g}, found "{text}"')
    return amount
