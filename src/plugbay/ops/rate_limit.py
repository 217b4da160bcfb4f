"""Limits how often something may be done."""

from __future__ import annotations

from collections.abc import Callable


class TokenBucket:
    """Allows ``burst`` at once and ``rate`` a second in the long run; starts full.

    Args:
        monotonic: seconds since some fixed moment.

    Source: what Go's ``x/time/rate.Limiter`` does for ``Allow``.
    """

    def __init__(self, *, rate: float, burst: int, monotonic: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._monotonic = monotonic
        self._tokens = float(burst)
        self._filled_at = monotonic()

    def take(self) -> bool:
        """Whether one more is allowed now; if so, it counts as done."""
        now = self._monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
