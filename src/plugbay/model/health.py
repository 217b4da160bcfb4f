"""Whether a device can be used, and why not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class HealthState(Enum):
    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    UNKNOWN = "Unknown"
    """Not known, for instance because a check did not answer. Advertised as unhealthy: v1beta1 has two states."""


@dataclass(frozen=True, slots=True)
class Health:
    """State of a device.

    Attributes:
        state: what is known.
        reason: one CamelCase word for machines, such as ``XidError``; empty when healthy.
        message: a sentence for people.
    """

    state: HealthState
    reason: str = ""
    message: str = ""

    @property
    def is_healthy(self) -> bool:
        return self.state is HealthState.HEALTHY

    def __str__(self) -> str:
        detail = ": ".join(part for part in (self.reason, self.message) if part)
        return f"{self.state.value} ({detail})" if detail else self.state.value


HEALTHY: Final = Health(HealthState.HEALTHY)


def unhealthy(reason: str = "", message: str = "") -> Health:
    """A device that must not be given out, and why."""
    return Health(HealthState.UNHEALTHY, reason, message)


def unknown(reason: str = "", message: str = "") -> Health:
    """A device of which nobody knows whether it works; it is not given out either."""
    return Health(HealthState.UNKNOWN, reason, message)
