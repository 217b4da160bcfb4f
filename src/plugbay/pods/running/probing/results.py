"""The results of probes, the thresholds that they have to reach, and the words of their events. Pure.

Source: kubelet 1.36 ``pkg/kubelet/prober/prober.go``, ``worker.go``.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from plugbay.model.probes import ContainerProbe, ProbeKind
from plugbay.values import dataclass


class ProbeOutcome(Enum):
    SUCCESS = "success"
    WARNING = "warning"
    """A success that an event tells of, such as a redirect to another host."""
    FAILURE = "failure"
    UNKNOWN = "unknown"
    """The probe could not be made, such as a command that is not there. It counts neither way."""
    UNFINISHED = "unfinished"
    """An answer broke off. It counts neither way; a kubelet's event calls it a failure."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """``text`` is the output of a command, or the reason of a failure."""

    outcome: ProbeOutcome
    text: str = ""

    @property
    def counts(self) -> bool:
        return self.outcome not in (ProbeOutcome.UNKNOWN, ProbeOutcome.UNFINISHED)

    @property
    def is_success(self) -> bool:
        return self.outcome in (ProbeOutcome.SUCCESS, ProbeOutcome.WARNING)


class ProbeEvent(NamedTuple):
    """The warning that tells of a result."""

    reason: str
    message: str


def event_of(kind: ProbeKind, result: ProbeResult) -> ProbeEvent | None:
    """The event that tells of ``result``; None of a success."""
    match result.outcome:
        case ProbeOutcome.SUCCESS:
            return None
        case ProbeOutcome.WARNING:
            return ProbeEvent("ProbeWarning", f"{kind.value} probe warning: {result.text}")
        case ProbeOutcome.FAILURE:
            return ProbeEvent("Unhealthy", f"{kind.value} probe failed: {result.text}")
        case ProbeOutcome.UNKNOWN | ProbeOutcome.UNFINISHED:
            state = "unknown" if result.outcome is ProbeOutcome.UNKNOWN else "failure"
            return ProbeEvent("Unhealthy", f"{kind.value} probe errored and resulted in {state} state: {result.text}")


@dataclass(frozen=True, slots=True)
class Streak:
    """The newest results of a probe that are all alike."""

    is_success: bool = False
    length: int = 0

    def after(self, result: ProbeResult) -> Streak:
        if not result.counts:
            return self
        return Streak(result.is_success, self.length + 1 if result.is_success is self.is_success else 1)

    def verdict(self, probe: ContainerProbe) -> bool | None:
        """Whether the container does well; None while it is not known anew."""
        threshold = probe.success_threshold if self.is_success else probe.failure_threshold
        return self.is_success if self.length >= threshold else None
