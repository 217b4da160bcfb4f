"""Back-off: how long to wait before an attempt is repeated."""

from __future__ import annotations

from typing import Final

from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class Delays:
    """Delays that double from ``first_s`` to ``most_s`` seconds.

    Attributes:
        free: the number of repetitions that come without a delay, before the first one with a delay.
        jitter: each delay is stretched or shrunk at random by at most this part of it, so that many nodes do not
            repeat together.
    """

    first_s: float
    most_s: float
    free: int = 0
    jitter: float = 0.0

    def after(self, failures: int) -> float:
        """The seconds to wait after a number of failed attempts, at least one."""
        if failures <= self.free:
            return 0.0
        doublings = min(failures - self.free - 1, 64)  # more would only overflow in the end
        delay_s = min(self.first_s * 2.0**doublings, self.most_s)
        if not self.jitter:
            return delay_s
        from random import uniform  # takes a quarter of a megabyte, and most processes never repeat anything

        return delay_s * uniform(1 - self.jitter, 1 + self.jitter)


RESTARTS: Final = Delays(10.0, 300.0, free=1)
"""A kubelet's delays between starts of a container: 0, 10, 20, 40 … 300 s.

Source: kubelet 1.36 ``kuberuntime_manager.go``, ``doBackOff``; ``client-go/util/flowcontrol/backoff.go``.
"""
STEADY_S: Final = 600.0
"""A container that ran for longer than this is restarted as if it had never failed. Source: as `RESTARTS`."""
OPERATIONS: Final = Delays(0.5, 122.0)
"""A kubelet's delays between attempts at the same operation: 0.5, 1, 2 … 122 s.

Source: kubelet 1.36 ``pkg/util/goroutinemap/exponentialbackoff``.
"""
SYNCS: Final = Delays(10.0, 10.0, free=1)
"""A kubelet's delays between attempts at what a pod needs: 0, 10, 10 … s."""
RETRIES: Final = Delays(0.05, 30.0, jitter=0.5)
"""A plugin's delays between attempts, on all nodes of a cluster at once."""


class Backoff:
    """The failed attempts at one thing, counted.

    Args:
        steady_s: an attempt that lasted longer is not counted, nor are those before it.
    """

    def __init__(self, delays: Delays, *, steady_s: float = float("inf")) -> None:
        self._delays = delays
        self._steady_s = steady_s
        self._failures = 0

    def reset(self) -> None:
        self._failures = 0

    def next_delay_s(self, *, ran_s: float = 0.0) -> float:
        """The delay after another failed attempt, which lasted ``ran_s``."""
        self._failures = 1 if ran_s > self._steady_s else self._failures + 1
        return self._delays.after(self._failures)


def go_duration(seconds: float) -> str:
    """Whole seconds as Go prints them: ``10s``, ``1m20s``, ``5m0s``."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
