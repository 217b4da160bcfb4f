"""The moments at which a probe is made. Pure.

A kubelet's probe has a ticker that runs from the moment at which the pod was taken up, whatever becomes of the
container; nothing happens at a tick at which there is nothing to probe. The same moments are computed here, so that no
timer runs for a container that is not to be probed. Moments are in seconds of a monotonic clock.

Source: kubelet 1.36 ``pkg/kubelet/prober/worker.go``, ``run``; Go 1.24 ``time.Ticker``.
"""

from __future__ import annotations

import math

from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class Ticker:
    """Ticks every ``period_s`` from the moment ``start``, which is tick number 0."""

    start: float
    period_s: float

    def moment(self, tick: int) -> float:
        return self.start + tick * self.period_s

    def newest(self, now: float) -> int:
        """The number of the last tick that is not after ``now``; -1 before the first one."""
        return max(-1, math.floor((now - self.start) / self.period_s))

    def following(self, tick: int, *, earliest: float) -> int:
        """The number of the first tick after ``tick`` that is not before ``earliest``."""
        return max(tick + 1, math.ceil((earliest - self.start) / self.period_s))

    def seen(self, tick: int, *, now: float) -> int:
        """The number of the last tick that is used up when a probe that was due at ``tick`` ends ``now``.

        One tick that passed meanwhile is kept, and the next probe follows at once; the others are lost.
        """
        return max(tick, self.newest(now) - 1)
