"""How long to wait before trying again."""

from __future__ import annotations

import random
from typing import Final

FIRST_S: Final = 0.05
MOST_S: Final = 30.0


class Backoff:
    """Doubling delays with jitter, from 50 ms to 30 s."""

    def __init__(self) -> None:
        self._attempt = 0

    def reset(self) -> None:
        self._attempt = 0

    def next_delay_s(self) -> float:
        """The next delay: half to one and a half times the doubled one, so that many nodes do not retry together."""
        delay_s = min(MOST_S, FIRST_S * 2.0 ** min(self._attempt, 16))
        self._attempt += 1
        return delay_s * random.uniform(0.5, 1.5)
