"""Keeps the spec of one resource true: a device is in the file before it is offered, and as long as a pod has it.

A kubelet keeps what Allocate answered as long as the pod lives, and an engine looks names up at each start of a
container. So devices that are gone from the list stay in the file while the kubelet says that they are assigned, after
the plugin's end too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

from plugbay.cdi.directories import scan
from plugbay.cdi.host import find_node
from plugbay.cdi.names import parse_kind
from plugbay.cdi.spec import SpecDevice as Entry
from plugbay.errors import CorruptCheckpoint, PathUnusable
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.devices import Device
from plugbay.model.edits import NO_EDITS, ContainerEdits, merge_devices
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.model.sharing import physical_id
from plugbay.ops.tasks import to_the_end
from plugbay.sdk.assigned import assigned_by_checkpoint
from plugbay.sdk.author.cdi_answers import CdiAnswer
from plugbay.sdk.cdi.entries import WITHOUT_ENV, answer, entry_name, sorted_out, spec_of
from plugbay.sdk.cdi.spec_file import PluginSpecFile, left_files, remove_file, remove_unfinished
from plugbay.sdk.hooks.calls import in_thread
from plugbay.sdk.watching import Watches

logger = logging.getLogger(__name__)

_Entries: TypeAlias = Mapping[str, Sequence[Entry]]
"""The entries of each device, by the name of the first."""

ADMISSION_S: Final = 600.0
"""The time after Allocate for which a device counts as assigned without a checkpoint: its pod may wait for others."""


class CdiPublication:
    """The CDI side of one served plugin.

    Args:
        kind: ``vendor/class`` of its devices.

    Raises:
        InvalidCdiName: the kind is not a CDI kind.
    """

    def __init__(
        self,
        resource: ResourceName,
        *,
        kind: str,
        how: CdiAnswer,
        join_env: str | None,
        directory: Path,
        paths: KubeletPaths,
    ) -> None:
        self._resource = resource
        self._kind = parse_kind(kind)
        self._how = how
        self._join_env = join_env
        self._paths = paths
        self._file = PluginSpecFile(directory, self._kind, resource)
        self._lock = asyncio.Lock()
        self._is_started = False
        self._found: _Entries = {}
        self._leaving: _Entries = {}  # in the list of now, and not in the one to come
        self._kept: _Entries = {}  # in no list
        self._given: dict[str, float] = {}
        self._refused: Mapping[DeviceId, str] = {}
        self._told: frozenset[str] = frozenset()

    def answer(self, devices: Sequence[Device], given: ContainerEdits = NO_EDITS) -> ContainerEdits:
        """The answer to Allocate for ``devices``; ``given`` is what the author's ``allocate`` says.

        Raises:
            ConflictingEdits: the devices do not go together.
        """
        merged = merge_devices((device.edits for device in devices), join_env=self._join_env)
        now = asyncio.get_running_loop().time()
        self._given.update({entry_name(device.id): now for device in devices})
        return answer(devices, kind=self._kind, resource=self._resource, how=self._how, merged=merged, given=given)

    async def prepare(self, devices: Sequence[Device]) -> list[Device]:
        """Add ``devices`` to the file; returns the devices that CDI can express.

        Raises:
            PathUnusable: the file cannot be written.
        """
        async with self._lock:
            if not self._is_started:
                await self._start()
            offered, entries, refused = await asyncio.to_thread(sorted_out, devices, find_node)
            self._tell_refused(refused)
            leaving = {**self._leaving, **self._found}
            self._leaving = {name: each for name, each in leaving.items() if name not in entries}
            self._kept = {name: each for name, each in self._kept.items() if name not in entries}
            self._found = entries
            await self._write()
        return offered

    async def offered(self) -> None:
        """The devices of the last `prepare` are the list now: take out others that no pod has."""
        async with self._lock:
            self._kept = {**self._kept, **self._leaving}
            self._leaving = {}
            await self._tidy()

    async def run(self, watches: Watches) -> NoReturn:
        """Write the file again when it is removed or changed, and tell of conflicts, until cancelled."""
        directory = self._file.path.parent
        with watches.watch([directory, self._file.path, self._paths.checkpoint]) as changes:
            while True:
                try:
                    if not await changes.__anext__() <= {self._paths.checkpoint}:
                        await self._restore()
                    async with self._lock:
                        await self._tidy()
                except PathUnusable as error:
                    logger.error("%s: %s", self._resource, error)

    async def close(self) -> None:
        """Leave only assigned devices in the file, as the resource is served no longer."""
        async with self._lock:
            if not self._is_started:
                return
            self._is_started = False
            if await asyncio.to_thread(self._file.is_another_process):
                self._file.close()
                return
            every = self._all()
            held = await self._held(every.keys())
            self._found, self._leaving, self._kept = (
                {},
                {},
                {name: each for name, each in every.items() if name in held},
            )
            try:
                await self._write()
            except PathUnusable as error:
                logger.error("%s: %s", self._resource, error)
            if self._kept:
                logger.info(
                    "%s: %s stays, for containers that have %s", self._resource, self._file.path, ", ".join(self._kept)
                )
            self._file.close()

    # --- with the lock held -----------------------------------------------------------------------------------------

    async def _start(self) -> None:
        """Take over what an earlier run has left, and remove what no pod needs."""
        before = await asyncio.to_thread(self._file.load)
        if before is not None and before.kind == str(self._kind):
            kept: dict[str, list[Entry]] = {}
            for entry in before.devices:
                kept.setdefault(entry.name.removesuffix(WITHOUT_ENV), []).append(entry)
            self._kept = kept
        left = await asyncio.to_thread(lambda: [*left_files(self._file.path.parent)])
        await self._to_the_end(remove_unfinished, self._file.path.parent, self._file.turns)
        left = [(path, resource) for path, resource in left if path != self._file.path]
        assigned = await self._assigned() if left else None
        for path, resource in left:
            if assigned is not None and not assigned.get(resource):
                await asyncio.to_thread(remove_file, path)
                logger.info("removed %s: %s is no longer served, and no pod has a device of it", path, resource)
        self._is_started = True

    def _tell_refused(self, refused: Mapping[DeviceId, str]) -> None:
        for device, problem in refused.items():
            if self._refused.get(device) != problem:  # the same one over and over is one line in the log
                logger.error("%s: not offered: %s", self._resource, problem)
        self._refused = refused

    async def _assigned(self) -> Mapping[ResourceName, Collection[DeviceId]] | None:
        """The devices that pods hold; None if that is unknown. PodResources is not asked: it may harm (spec 4.9.2)."""
        try:
            return await asyncio.to_thread(assigned_by_checkpoint, self._paths)
        except FileNotFoundError:
            return {}
        except (OSError, CorruptCheckpoint) as error:
            logger.debug("%s: nothing is taken out of %s: %s", self._resource, self._file.path, error)
            return None

    async def _held(self, names: Collection[str]) -> Collection[str]:
        """The ``names`` of devices that a pod has, or may have."""
        assigned = await self._assigned()
        if assigned is None:
            return names
        ids = assigned.get(self._resource, ())
        held = {entry_name(each) for each in (*ids, *map(physical_id, ids))}
        latest = asyncio.get_running_loop().time() - ADMISSION_S
        self._given = {name: at for name, at in self._given.items() if name not in held and at > latest}
        return (held | self._given.keys()).intersection(names)

    def _all(self) -> _Entries:
        return {**self._kept, **self._leaving, **self._found}

    async def _tidy(self) -> None:
        if self._kept:
            held = await self._held(self._kept.keys())
            self._kept = {name: each for name, each in self._kept.items() if name in held}
            await self._write()

    async def _write(self) -> None:
        every = self._all()
        if not every:
            if await self._to_the_end(self._file.remove):
                logger.info("%s: removed %s", self._resource, self._file.path)
            return
        if await self._to_the_end(self._file.write, spec_of(self._kind, every)):
            logger.info("%s: wrote %s", self._resource, self._file.path)
            await self._warn_of_conflicts()

    async def _to_the_end(self, work: Callable[..., Any], *arguments: object) -> Any:
        """Do blocking work; a plugin that ends waits until it is done, but does not wait for a turn."""
        self._file.turns.begin_anew()  # an earlier one may have been cancelled, and the plugin go on
        return await to_the_end(in_thread(work, *arguments), cancelled=self._file.turns.give_up)

    async def _restore(self) -> None:
        async with self._lock:
            if not self._is_started:
                return
            if await asyncio.to_thread(self._file.is_another_process):
                self._tell(f"{self._file.path} is another process's now, which serves {self._resource} too")
                return
            await self._write()
            await self._warn_of_conflicts()

    async def _warn_of_conflicts(self) -> None:
        registry = await asyncio.to_thread(scan, [self._file.path.parent])
        problems = registry.problems.get(str(self._file.path), ())
        self._tell(*(f"of no use to any container: {error}" for error in problems))

    def _tell(self, *problems: str) -> None:
        for problem in problems:
            if problem not in self._told:
                logger.warning("%s: %s", self._resource, problem)
        self._told = frozenset(problems)
