"""Registrations that the kubelet of a test refused, for failures: a plugin seldom says why it is not registered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugbay.traffic.recorder import TrafficRecorder
from plugbay.traffic.records import TrafficEvent

_MOST: Final = 3
"""So many refusals are told, the newest: a plugin that goes on trying gets the same answer each time."""


def refused_registrations(traffic: TrafficRecorder) -> Iterator[str]:
    """Yield a sentence for each of the last refused Register calls."""
    requests = {record.call: record.value or {} for record in traffic.of("Register")}
    ends = [record for record in traffic.of("Register", event=TrafficEvent.END) if record.failure is not None]
    for record in ends[-_MOST:]:
        request = requests.get(record.call, {})
        wanted = f"{request.get('resource_name', '')!r} at {request.get('endpoint', '')!r}"
        yield f"registration of {wanted} was refused: {record.failure.detail if record.failure else ''}"
