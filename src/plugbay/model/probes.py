"""The probes of a container, as values."""

from __future__ import annotations

from enum import Enum
from typing import Final

from plugbay.model.actions import ProbeAction
from plugbay.values import dataclass


class ProbeKind(Enum):
    """The use of a probe, in the words of a kubelet's events."""

    STARTUP = "Startup"
    LIVENESS = "Liveness"
    READINESS = "Readiness"


@dataclass(frozen=True, slots=True)
class ContainerProbe:
    """One probe; the defaults are the API server's.

    Attributes:
        initial_delay_s: no probe is made before the container has run for so long.
        success_threshold: successes in a row that count as one.
        failure_threshold: failures in a row that count as one.
        grace_s: the grace period of a container that this probe has killed; None means the pod's.
    """

    action: ProbeAction
    initial_delay_s: int = 0
    timeout_s: int = 1
    period_s: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    grace_s: int | None = None


@dataclass(frozen=True, slots=True)
class Probes:
    """The probes of one container.

    Attributes:
        startup: holds back the others until it has succeeded; kills the container when it fails.
        liveness: kills the container when it fails.
        readiness: says whether the container is ready.
    """

    startup: ContainerProbe | None = None
    liveness: ContainerProbe | None = None
    readiness: ContainerProbe | None = None


NO_PROBES: Final = Probes()
