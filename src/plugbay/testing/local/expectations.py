"""Compare what a test expects a kubelet to see with what it sees."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field

from plugbay.testing.local.sights import KubeletSight
from plugbay.values import dataclass


class ExpectationFailed(AssertionError):
    """The kubelet did not see in time what was expected; the text says what it saw instead."""


class PluginNotReady(ExpectationFailed):
    """A plugin did not register, or sent no list; the text has the end of its output."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """Expected counts, devices and health. A resource that is not named may be anything.

    Attributes:
        capacity, allocatable: number by resource; None for a resource that the node must not show.
        devices: exactly these device IDs, by resource.
        health: health of these devices, by resource.
    """

    capacity: Mapping[str, int | None] = field(default_factory=dict)
    allocatable: Mapping[str, int | None] = field(default_factory=dict)
    devices: Mapping[str, Collection[str]] = field(default_factory=dict)
    health: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def is_met(self, sight: KubeletSight) -> bool:
        return not any(self.differences(sight))

    def differences(self, sight: KubeletSight) -> Iterator[tuple[str, object, object]]:
        """Yield subject, what was expected and what was seen, for all that differs."""
        yield from _counts("capacity", self.capacity, sight.capacity)
        yield from _counts("allocatable", self.allocatable, sight.allocatable)
        health = sight.health
        for resource, wanted in self.devices.items():
            if set(wanted) != set(seen := health.get(resource, {})):
                yield f"devices of {resource}", sorted(wanted), sorted(seen)
        for resource, by_device in self.health.items():
            for device, text in by_device.items():
                if (is_now := health.get(resource, {}).get(device)) != text:
                    yield f"health of {device} of {resource}", text, is_now


def _counts(
    subject: str, wanted: Mapping[str, int | None], seen: Mapping[str, int]
) -> Iterator[tuple[str, object, object]]:
    for resource, count in wanted.items():
        if seen.get(resource) != count:
            yield f"{subject} of {resource}", count, seen.get(resource)


def difference_text(expectation: Expectation, sight: KubeletSight) -> str:
    """A diff: a line with ``-`` for what was expected, one with ``+`` for what was seen."""
    lines: list[str] = []
    for subject, wanted, seen in expectation.differences(sight):
        lines += [f"- {subject}: {_shown(wanted)}", f"+ {subject}: {_shown(seen)}"]
    return "\n".join(lines)


def sight_text(sight: KubeletSight) -> str:
    """All that the kubelet sees, for a failure."""
    if not sight.resources:
        return "the kubelet knows no resource"
    lines = ["the kubelet sees:"]
    for name, each in sight.resources.items():
        lines.append(f"  {name}: capacity {each.capacity}, allocatable {each.allocatable}; {each.plugin}")
        lines += [f"    {device}: {health}" for device, health in each.devices.items()]
    return "\n".join(lines)


def _shown(value: object) -> str:
    return "(nothing)" if value is None else str(value)
