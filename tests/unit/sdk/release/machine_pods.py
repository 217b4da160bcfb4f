"""Pods of the machine, and what is really so: which devices are in use, which are dirty, and what went wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto

from plugbay.model.assignments import Assignment
from plugbay.model.ids import DeviceId
from plugbay.model.sharing import physical_id

TO_DISK_S = 0.1
"""Within that time a record of a journal is on the disk, and no kubelet has started a container."""


class Kind(Enum):
    INIT = auto()
    SIDECAR = auto()
    APP = auto()


@dataclass
class Container:
    """Attributes:
    wants: so many of our devices.
    other: so many of the other plugin's.
    units: what it has of ours.
    """

    name: str
    kind: Kind
    wants: int
    other: int = 0
    units: frozenset[str] = frozenset()
    runs: bool = False
    has_ended: bool = False


@dataclass
class Pod:
    """Attributes:
    is_refused: whether a later handler of the admission refuses it.
    is_active: whether the kubelet counts it, see spec 4.12.
    runs: whether a container of it may run now.
    has_begun: whether it was admitted.
    """

    uid: str
    containers: list[Container] = field(default_factory=list)
    is_refused: bool = False
    is_active: bool = True
    runs: bool = False
    has_begun: bool = False

    @property
    def units(self) -> set[str]:
        return {unit for container in self.containers for unit in container.units}

    def end(self) -> None:
        """Its containers have stopped."""
        self.runs = False
        for container in self.containers:
            container.runs, container.has_ended = False, True

    def next_to_start(self) -> Container | None:
        """In the order of a kubelet; a container that runs may be started again."""
        for container in self.containers:
            if not container.has_ended and not container.runs:
                return container
        return next((each for each in self.containers if each.runs), None)


class Truth:
    """
    Attributes:
        dirty: devices that somebody was given and that were not released since.
        lost: devices that are clean since the power failed, unless a plugin finds them in the kubelet's checkpoint.
        unproven: devices of which no kubelet can tell any more whose they are.
        beyond_proof: those of which the plugin cannot know that: a kubelet that began with nothing has left its
            checkpoint to the next one before the plugin met it.
        wrong: what must not happen, and did.
    """

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.dirty: set[str] = set()
        self.lost: set[str] = set()
        self.unproven: set[str] = set()
        self.beyond_proof: set[str] = set()
        self.wrong: list[str] = []
        self.is_strict = True
        self.hears_stops = False
        self._started: dict[str, list[str]] = {}  # by unit: pods of containers of whose ends nobody was told
        self._releasing: list[Assignment] = []
        self._given_at: dict[str, float] = {}

    def users(self, device: str) -> list[str]:
        """Who may use ``device``, whatever the kubelet knows of it."""
        return [
            pod.uid
            for pod in self.pods.values()
            if (pod.runs or pod.is_active) and device in {physical_id(unit) for unit in pod.units}
        ]

    def given(self, pod: Pod, units: Collection[str], *, elsewhere: Collection[str], at: float) -> set[str]:
        """The hook has begun; returns what it has to clean up if it refuses.

        Args:
            elsewhere: units that are other pods' by all that the kubelet knows.
        """
        fresh: set[str] = set(map(str, map(physical_id, units))) - self.dirty
        shared = {physical_id(unit) for unit in elsewhere if unit not in units}
        mine = {physical_id(unit) for unit in pod.units}
        for device in {physical_id(unit) for unit in units}:
            if self.is_strict and device in self.dirty and device not in mine | shared:
                self.wrong.append(f"{device} was given dirty to {pod.uid}")
            if any(device in running.device_ids for running in self._releasing):
                self.wrong.append(f"{device} was given to {pod.uid} while it was released")
            self.dirty.add(device)
            self.lost.discard(device)
            self._given_at[device] = at
        return fresh

    @contextmanager
    def releasing(self, assignment: Assignment) -> Iterator[None]:
        """A hook runs; if it fails nothing is clean."""
        self._check_free(assignment, "as its release began")
        if self.hears_stops and (late := [unit for unit in assignment.units if self._started.get(unit)]):
            self.wrong.append(f"{late} were released and not post-stopped")
        self._releasing.append(assignment)
        try:
            yield
        finally:
            self._releasing.remove(assignment)
        self._check_free(assignment, "as its release ended")
        self.dirty.difference_update(assignment.device_ids)
        self.lost.difference_update(assignment.device_ids)
        self.unproven.difference_update(assignment.device_ids)
        self.beyond_proof.difference_update(assignment.device_ids)

    def _check_free(self, assignment: Assignment, when: str) -> None:
        for device in sorted(set(assignment.device_ids) - self.beyond_proof):
            if used := self.users(device):
                self.wrong.append(f"{device} was in use by {used} {when}: {assignment}")

    def started(self, pod: Pod, units: Collection[str]) -> None:
        """A container was created: whoever had its units before it has ended, and the plugin has heard of that."""
        if self.hears_stops and (late := [unit for unit in units if self._is_late(pod, unit)]):
            self.wrong.append(
                f"a container of {pod.uid} has begun with {late}, and the one before was not post-stopped"
            )
        for unit in units:
            self._started.setdefault(unit, []).append(pod.uid)

    def _is_late(self, pod: Pod, unit: str) -> bool:
        """The lazy care for containers of one pod, as long as nobody else may have the unit."""
        before = self._started.get(unit, ())
        if self.is_strict:
            return bool(before)
        is_shared = any(
            unit in each.units and (each.runs or each.is_active) for each in self.pods.values() if each is not pod
        )
        return (
            pod.uid in before and not is_shared and physical_id(DeviceId(unit)) not in self.unproven | self.beyond_proof
        )

    def stopped(self, units: Collection[DeviceId]) -> None:
        """`post_stop` was called."""
        for pod in self.pods.values():
            for container in pod.containers:
                if container.runs and (used := container.units.intersection(units)):
                    self.wrong.append(f"{sorted(used)} of {pod.uid}/{container.name}, which runs, were post-stopped")
        for unit in units:
            self._started.pop(unit, None)

    def rebooted(self, at: float) -> None:
        """What was given so late that no container can have begun to use it counts as clean: the record may be lost."""
        self._started.clear()
        late = {device for device, given_at in self._given_at.items() if at - given_at <= TO_DISK_S}
        self.dirty -= late
        self.lost |= late
