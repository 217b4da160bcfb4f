"""How long to wait before the next try."""

from __future__ import annotations

from typing import Final

FIRST_DELAY_S: Final = 10.0
MAX_DELAY_S: Final = 300.0
RESET_AFTER_S: Final = 600.0


class Backoff:
    """Delays of 0, 10, 20, 40 … seconds, at most ``max_s``: the first repetition is free.

    Source: kubelet 1.36 ``kuberuntime_manager.go``, ``doBackOff``; ``client-go/util/flowcontrol/backoff.go``.
    """

    def __init__(self, *, max_s: float = MAX_DELAY_S) -> None:
        self._max_s = max_s
        self._next_s = 0.0

    def next_delay_s(self, *, ran_s: float = 0.0) -> float:
        """The delay after an attempt that lasted ``ran_s``; one that lasted over ten minutes starts afresh."""
        if ran_s > RESET_AFTER_S:
            self._next_s = 0.0
        delay = self._next_s
        self._next_s = min(max(delay * 2, FIRST_DELAY_S), self._max_s)
        return delay


def go_duration(seconds: float) -> str:
    """Whole seconds as Go prints them: ``10s``, ``1m20s``, ``5m0s``."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
