"""Whether the node takes new pods: ``kubectl cordon``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from plugbay.ops.clock import Clock


class CordonSink(Protocol):
    """Where it is kept."""

    def save_cordon(self, since: datetime | None) -> None: ...


class Cordon:
    """While it is drawn the scheduler binds no pod to the node; pods that name the node come nevertheless.

    Args:
        changed: called after it was drawn or lifted.

    Attributes:
        since: when it was drawn; None while it is not.
    """

    def __init__(
        self, sink: CordonSink, clock: Clock, *, since: datetime | None, changed: Callable[[], None] = lambda: None
    ) -> None:
        self._changed = changed
        self._sink = sink
        self._clock = clock
        self.since = since

    @property
    def is_drawn(self) -> bool:
        return self.since is not None

    def draw(self) -> None:
        """Harmless twice."""
        if self.since is None:
            self.since = self._clock.now()
            self._sink.save_cordon(self.since)
            self._changed()

    def lift(self) -> None:
        """Harmless twice."""
        if self.since is not None:
            self.since = None
            self._sink.save_cordon(None)
            self._changed()
