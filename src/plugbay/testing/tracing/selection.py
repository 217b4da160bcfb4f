"""The choice of what a trace shows. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from plugbay.errors import UsageError
from plugbay.testing.traffic.records import TrafficRecord
from plugbay.wire.message_values import METHODS, method_name


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
    known = {method_name(path).lower(): method_name(path) for path in METHODS}
    chosen = set()
    for method in methods:
        if method.lower() not in known:
            raise UsageError(f'there is no method "{method}"; choose from {", ".join(known.values())}')
        chosen.add(known[method.lower()])
    return Selection(frozenset(chosen), frozenset(resources))
