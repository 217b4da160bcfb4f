"""Counts of looks at the machine, for metrics."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from plugbay.ops.metrics import Histogram


class LookCounts:
    """How looks at the machine went.

    Attributes:
        taken: the seconds that looks took, failed ones too.
        failures: looks that gave nothing.
        last_s: the duration of the last one.
        events: what has happened on the machine, by ``path`` and ``uevent``.
    """

    def __init__(self) -> None:
        self.taken = Histogram()
        self.failures = 0
        self.last_s = 0.0
        self.events: Counter[str] = Counter()

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count a look."""
        began = time.monotonic()
        try:
            yield
        except BaseException:
            self.failures += 1
            raise
        finally:
            self.last_s = time.monotonic() - began
            self.taken.observe(self.last_s)
