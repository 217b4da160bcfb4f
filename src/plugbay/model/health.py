"""Health: whether a device can be used, and if not, why."""

from __future__ import annotations

from enum import Enum
from typing import Final

from plugbay.errors import InvalidHealth
from plugbay.model.dns import is_name
from plugbay.values import dataclass

MAX_MESSAGE_BYTES: Final = 1024

_CUT: Final = "…"


class HealthState(Enum):
    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    UNKNOWN = "Unknown"
    """The health is not known: a check did not answer, say. A kubelet sees it as unhealthy: v1beta1 has two states."""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a device.

    Attributes:
        state: healthy, unhealthy or unknown.
        reason: one CamelCase word for machines, such as ``XidError``; empty when healthy. It has to be valid as the
            value of a label.
        message: a sentence for people. It is cut to 1,024 bytes.

    Raises:
        InvalidHealth: the reason is not such a word, or the message is not a text.
    """

    state: HealthState
    reason: str = ""
    message: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str) or (self.reason and not is_reason(self.reason)):
            raise InvalidHealth(f"{self.reason!r} is not a reason for a health: that is one word, such as Overheated")
        if not isinstance(self.message, str):
            raise InvalidHealth(f"the message of a health is {self.message!r} and not a text")
        if len(self.message.encode(errors="replace")) > MAX_MESSAGE_BYTES:
            kept = self.message.encode(errors="replace")[: MAX_MESSAGE_BYTES - len(_CUT.encode())]
            object.__setattr__(self, "message", kept.decode(errors="ignore") + _CUT)

    @property
    def is_healthy(self) -> bool:
        return self.state is HealthState.HEALTHY

    def __str__(self) -> str:
        detail = ": ".join(part for part in (self.reason, self.message) if part)
        return f"{self.state.value} ({detail})" if detail else self.state.value


def is_reason(text: str) -> bool:
    """Whether ``text`` can be the reason of a `Health`."""
    return is_name(text)


HEALTHY: Final = Health(HealthState.HEALTHY)


def unhealthy(reason: str = "", message: str = "") -> Health:
    """A device that must not be given out, and why."""
    return Health(HealthState.UNHEALTHY, reason, message)


def unknown(reason: str = "", message: str = "") -> Health:
    """The health of a device that may or may not work; it is not given out either."""
    return Health(HealthState.UNKNOWN, reason, message)
