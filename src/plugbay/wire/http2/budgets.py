"""Budgets for what a peer may do that costs it little and us more.

A peer has to send some frames that bring nothing forward, and can be kept from sending only such: each takes a token,
and there is a connection's end when none is left. Tokens come back with time and with frames that are of use.

Source: RFC 9113 section 10.5; CVE-2019-9512, 9514, 9515, 9517 and 9518 (floods), CVE-2023-44487 (rapid reset),
CVE-2024-27316 (CONTINUATION), CVE-2025-8671 (made you reset).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

CHEAP_BURST: Final = 1000
CHEAP_PER_S: Final = 200
CHEAP_EARNED: Final = 2
"""Tokens for a frame that is of use: grpc-go and C-core answer DATA by a PING and a WINDOW_UPDATE."""
SMALL_DATA: Final = 512
"""Bytes of DATA of ours that a window cuts off: less is of no use, as the peer could let through byte by byte for ever
(CVE-2019-9511)."""
RESET_BURST: Final = 200
RESETS_PER_S: Final = 50
MOST_ANSWERS: Final = 10_000
"""Answers that lie unsent: a peer that does not read them and has more made is not answered for ever."""


class Budget:
    """Tokens that are spent one by one and come back with time.

    Args:
        clock: gives seconds that never go back.
    """

    __slots__ = ("_burst", "_clock", "_per_s", "_since", "_tokens")

    def __init__(self, burst: int, per_s: float, clock: Callable[[], float]) -> None:
        self._burst = burst
        self._per_s = per_s
        self._clock = clock
        self._tokens = float(burst)
        self._since = clock()

    def spend(self) -> bool:
        """Take a token; False if there is none."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._since) * self._per_s)
        self._since = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def earn(self) -> None:
        """Give back the tokens for a frame that was of use."""
        if self._tokens < self._burst:
            self._tokens += CHEAP_EARNED
