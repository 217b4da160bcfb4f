"""Who watches what the hooks of plugins are told, and knows what must never happen."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection

from plugbay import Assignment, ReleasePolicy


class Witness:
    """What is true of the devices, whatever anybody has written down.

    Args:
        users: the pods that may use a device now.

    Attributes:
        given: what the pod has got that the kubelet works on now.
        dirty: devices that were given and not released since.
        started: those that a container has which was started and not post-stopped.
        running: those that a container has which runs.
        failing: so many of the next releases fail.
        allocating, releasing: set when a hook has begun.
        may_answer, let_go: hooks wait for them, if there are any.
        wrong: what must never happen, and did.
    """

    def __init__(self, policy: ReleasePolicy, users: Callable[[str], Collection[str]]) -> None:
        self._policy = policy
        self._users = users
        self.given: set[str] = set()
        self.dirty: set[str] = set()
        self.started: set[str] = set()
        self.running: Counter[str] = Counter()
        self.failing = 0
        self.allocating = asyncio.Event()
        self.may_answer: asyncio.Event | None = None
        self.releasing = asyncio.Event()
        self.let_go: asyncio.Event | None = None
        self.wrong: list[str] = []
        self.releases = 0
        self._releasing: Counter[str] = Counter()
        self._released_here: set[str] = set()
        self._units: dict[str, tuple[str, ...]] = {}

    def check(self) -> None:
        assert not self.wrong, self.wrong

    def process_starts(self) -> None:
        """None is left of the one before."""
        self._releasing.clear()
        self._released_here.clear()

    def starts(self, units: Collection[str]) -> None:
        """A container."""
        self.running.update(units)
        self.started.update(units)

    def allocated(self, units: Collection[str]) -> None:
        if busy := [unit for unit in units if self._releasing[unit]]:
            self._say(f"gave {busy} while they were released")
        if self._policy is ReleasePolicy.STRICT and (soiled := self.dirty.intersection(units) - self.given):
            self._say(f"gave {sorted(soiled)} dirty")
        self.given.update(units)
        self.dirty.update(units)
        self.allocating.set()

    def begins(self, assignment: Assignment) -> None:
        units = assignment.units
        for unit in units:
            if users := [*self._users(unit), *["the pod being admitted"] * (unit in self.given)]:
                self._say(f"released {unit} while {', '.join(users)} may use it")
        if self._policy is ReleasePolicy.STRICT and (unstopped := self.started.intersection(units)):
            self._say(f"released {sorted(unstopped)} before post_stop")
        before = self._units.setdefault(assignment.key, units)
        self._units[assignment.key] = units
        if before != units and (self._policy is ReleasePolicy.STRICT or not {*before} > {*units}):
            self._say(f"{assignment.key} was {before} and is {units}")
        if assignment.key in self._released_here:
            self._say(f"released {assignment.key} twice in one process")
        self._releasing.update(units)
        self.releasing.set()

    def ends(self, assignment: Assignment) -> None:
        self._releasing.subtract(assignment.units)
        if self.failing:
            self.failing -= 1
            raise RuntimeError("the drive does not answer")
        self.releases += 1
        self._released_here.add(assignment.key)
        self.dirty.difference_update(assignment.units)

    def stopped(self, assignment: Assignment) -> None:
        if running := [unit for unit in assignment.units if self.running[unit]]:
            self._say(f"post-stopped {running} which run")
        self.started.difference_update(assignment.units)

    def _say(self, what: str) -> None:
        self.wrong.append(what)
