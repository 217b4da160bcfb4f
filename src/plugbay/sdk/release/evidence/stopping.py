"""Pods that a kubelet has given up and has still to stop.

When a pod is deleted by force, or its manifest is removed, a kubelet drops its assignments at once, and its containers
have their grace period nevertheless (seen with 1.36; ``filterOutInactivePods``): it may give the devices to another pod
within milliseconds. Only the pod's control group tells.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from plugbay.errors import PathUnusable
from plugbay.model.assignments import AssignmentKey
from plugbay.model.ids import DeviceId, PodUid
from plugbay.sdk.release.evidence.readings import Readings
from plugbay.sdk.release.ledger.ledger import Ledger
from plugbay.sdk.release.uses import Proof, Reading, Use, find

if TYPE_CHECKING:
    from plugbay.kubelet.pod_cgroups import PodCgroups
    from plugbay.sdk.watching import Watches

_RETRY_S: Final = 0.1
"""The time between looks: in version 1 of control groups nothing tells when the last process has left."""

_Given: TypeAlias = tuple[DeviceId, float]
"""A unit, and since when it is in use: the same in each part of a use that others have overtaken."""


class StoppingPods:
    """The pods with devices of one resource that may have containers still.

    A use has no pod before a reading has listed it, which may be half a minute. But each checkpoint that a kubelet
    writes meanwhile says which pod has its devices, if not for sure: it may be of a moment before.
    """

    def __init__(self, proc_root: Path) -> None:
        self._proc_root = proc_root
        self._cgroups: PodCgroups | None = None
        self._had: dict[_Given, frozenset[PodUid]] = {}  # replaced, never changed: threads read it

    def kubelet_restarted(self) -> None:
        """Forget where the kubelet keeps control groups: it may keep them elsewhere from now on."""
        self._cgroups = None

    async def learn(
        self, ledger: Ledger, readings: Readings, watches: Watches, *, matters: Callable[[Use], bool]
    ) -> NoReturn:
        """Look which pods have the devices of ``ledger`` in each checkpoint that is written, until cancelled.

        Args:
            matters: tells whether a checkpoint may be asked whether a use is over.
        """

        def nameless() -> list[Use]:
            return [use for use in ledger.uses() if not use.pod and matters(use)]

        with watches.watch([readings.path]) as changes:
            while True:
                with suppress(PathUnusable):  # said as soon as something is given or taken back
                    ledger.hear()  # what another process has given may be listed before `neighbours` has heard of it
                if nameless():
                    found = await asyncio.to_thread(readings.on_disk, asyncio.get_running_loop().time())
                    self._note(nameless(), found)
                await anext(changes)

    def _note(self, uses: Iterable[Use], found: Reading) -> None:
        had = self._had
        self._had = {
            given: had.get(given, frozenset()).union(pod for pod, _ in found.listed.get(given[0], ()))
            for use in uses
            for given in _given(use)
        }

    async def seen(self, uses: Iterable[Use], reading: Reading) -> Reading:
        """``reading`` with what can be seen of those ``uses`` that it shows to be over otherwise."""
        absent = [use for use in uses if find(use, reading) is Proof.ABSENT]
        if not absent:
            return reading
        return replace(reading, going_on=await asyncio.to_thread(self.going_on, absent))

    def going_on(self, uses: Iterable[Use], *, beside: Collection[PodUid] = ()) -> frozenset[AssignmentKey]:
        """Find the ``uses`` whose pods still have containers, as far as can be seen. Blocks.

        Args:
            beside: pods to leave out.
        """
        pods = {use.key: self._pods_of(use).difference(beside) for use in uses}
        running = self._running(frozenset().union(*pods.values()))
        return frozenset(key for key, of_it in pods.items() if not running.isdisjoint(of_it))

    def _pods_of(self, use: Use) -> frozenset[PodUid]:
        if use.pod:
            return frozenset({use.pod})
        had = self._had
        return frozenset().union(*(had.get(given, ()) for given in _given(use)))

    async def until_stopped(self, uses: Collection[Use], within_s: float) -> None:
        """Return when no pod of ``uses`` has containers, or the time is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while loop.time() < deadline:
            if not await asyncio.to_thread(self.going_on, uses):
                return
            await asyncio.sleep(_RETRY_S)

    def _running(self, pods: Collection[PodUid]) -> frozenset[PodUid]:
        if (cgroups := self._cgroups) is None:
            from plugbay.kubelet.pod_cgroups import PodCgroups  # imported here: it is needed once something is in use

            cgroups = self._cgroups = PodCgroups(proc_root=self._proc_root)
        return cgroups.with_containers(pods)


def _given(use: Use) -> Iterator[_Given]:
    return ((unit, use.since) for unit in use.units)
