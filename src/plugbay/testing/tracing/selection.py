"""The choice of what a trace shows. Pure."""

from __future__ import annotations

from collections.abc import Collection

from plugbay.traffic.records import TrafficRecord
from plugbay.values import dataclass
from plugbay.wire.message_values import known_method


@dataclass(frozen=True, slots=True)
class Selection:
    """Attributes:
    methods: names such as ``Allocate``; empty for all, and for connections.
    resources: resource names; empty for all.
    """

    methods: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()

    def has(self, record: TrafficRecord) -> bool:
        """Whether the record is shown."""
        if self.methods and record.name not in self.methods:
            return False
        return not self.resources or record.resource in self.resources


def selection_of(methods: Collection[str], resources: Collection[str]) -> Selection:
    """The selection of methods by their names, in any case of letters.

    Raises:
        UsageError: there is no such method.
    """
    return Selection(frozenset(map(known_method, methods)), frozenset(resources))
