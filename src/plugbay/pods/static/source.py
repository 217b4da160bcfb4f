"""Keeps the node's static pods as a directory of manifests says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from plugbay.errors import PodExists, PodNotFound, StoreUnusable
from plugbay.kernel.watch import watch_paths
from plugbay.model.ids import PodUid
from plugbay.model.pods import Pod
from plugbay.objects.watch import Change
from plugbay.pods.engine import PodEngine
from plugbay.pods.events import ObjectRef
from plugbay.pods.record import PodRecord, is_static
from plugbay.pods.static.files import is_of
from plugbay.pods.static.reader import ManifestFiles, ManifestReader
from plugbay.pods.store.event_log import EventLog
from plugbay.pods.store.table import PodTable

logger = logging.getLogger(__name__)

REASON: Final = "InvalidManifest"
LOOK_AGAIN_S: Final = 20.0
"""A kubelet looks at its manifests so often."""


class ManifestSource:
    """Creates a pod for each manifest, and deletes it when the manifest goes or becomes another one.

    A file that cannot be used is reported, and what it made before stays: an edit gone wrong ends nothing, nor does a
    directory that cannot be listed at the moment.
    """

    def __init__(
        self, directory: Path, *, node: ObjectRef, engine: PodEngine, pods: PodTable, events: EventLog
    ) -> None:
        self._directory = directory
        self._reader = ManifestReader(directory, node=node.name)
        self._node = node
        self._engine = engine
        self._pods = pods
        self._events = events
        self._made: dict[Path, tuple[Pod, ...]] = {}
        """The pods of each file that is there, as of when the file was last usable."""
        self._wanted: dict[PodUid, Pod] = {}
        """All wanted pods; the mapping is replaced, never changed."""
        self._is_read = asyncio.Event()
        """Set once the wanted pods are known; before, every static pod would seem to have lost its file."""
        self._reported: dict[Path, str] = {}
        self._unusable: frozenset[Path] = frozenset()
        self._foreign: set[str] = set()
        self._seen: set[PodUid] = set()

    async def run(self) -> None:
        """Keep the pods as the directory says; runs as long as the node."""
        if not await asyncio.to_thread(self._directory.is_dir):
            logger.warning("the directory %s does not exist yet; its manifests make pods once it does", self._directory)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_files())
            tasks.create_task(self._follow_pods())

    async def _follow_files(self) -> None:
        while True:
            watched = {self._directory, *await asyncio.to_thread(self._reader.paths)}
            async with watch_paths(watched) as changes:
                reading = self._reader.read()
                while (files := await asyncio.to_thread(next, reading, None)) is not None:
                    self._take(files)
                    await self._sync()
                    newest = files
                if newest.paths <= watched:
                    await _next_look(changes, is_in_doubt=newest.is_in_doubt)

    async def _follow_pods(self) -> None:
        """Make a deleted static pod again, and one that waited for its name to be free."""
        subscription = self._pods.watch()
        await self._is_read.wait()
        while True:
            changes = await subscription.next()
            if any(change is Change.DELETED for change, _ in changes):
                await self._sync()

    def _take(self, files: ManifestFiles) -> None:
        kept = files.problems.keys() | files.unread
        self._made = {path: pods for path, pods in self._made.items() if path in kept} | dict(files.pods)
        wanted: dict[PodUid, Pod] = {}
        for pod in (pod for pods in self._made.values() for pod in pods):
            wanted.setdefault(pod.uid, pod)
        self._wanted = wanted
        self._is_read.set()
        problems = {**doubles(self._made), **files.problems}
        for path, problem in problems.items():
            if self._reported.get(path) != problem:
                self._report(problem)
        self._reported = problems
        self._unusable = files.unread | files.problems.keys()

    def _report(self, problem: str) -> None:
        logger.warning("a manifest makes no pod until it is mended: %s", problem)
        self._events.warning(self._node, REASON, problem)

    async def _sync(self) -> None:
        """Take steps until the pods are as wanted; each looks anew, as files and pods may change while one waits."""
        self._seen |= self._wanted.keys()
        for uid in [each.uid for each in self._pods if is_static(each.pod)]:
            if uid in self._pods and self._is_to_go(self._pods[uid]):
                await _delete(self._pods[uid].pod, self._engine)
        for uid in self._wanted:
            if (pod := self._wanted.get(uid)) is None:
                continue
            if uid not in self._pods:
                await self._create(pod)
            elif not is_static(there := self._pods[uid].pod):
                whose = f"pod {there.namespace}/{there.name}, which does not come from a manifest"
                self._report_foreign(there, f"pod {pod.namespace}/{pod.name} has the UID of {whose}")

    def _is_to_go(self, record: PodRecord) -> bool:
        wanted = self._wanted.get(record.uid)
        is_kept = wanted is not None and is_of(record.pod, wanted)
        return not is_kept and record.deletion is None and self._may_delete(record.uid)

    def _may_delete(self, uid: PodUid) -> bool:
        """Whether a static pod may go: one from before a restart may belong to a file that cannot be used now."""
        return uid in self._seen or not (self._unusable - self._made.keys())

    async def _create(self, pod: Pod) -> None:
        try:
            await self._engine.create_static(pod)
        except PodExists as error:
            there = self._pods.named(pod.namespace, pod.name).pod
            if not is_static(there):
                self._report_foreign(there, f"{error}, and it does not come from a manifest")
        except StoreUnusable as error:
            self._report(str(error))

    def _report_foreign(self, there: Pod, problem: str) -> None:
        if there.uid not in self._foreign:
            self._foreign.add(there.uid)
            self._report(problem)


async def _next_look(changes: AsyncIterator[object], *, is_in_doubt: bool) -> None:
    """Return when something has changed; after a while also if what the system refused may go well now."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LOOK_AGAIN_S if is_in_doubt else None):
            await anext(changes)


async def end_static_pods(engine: PodEngine, pods: PodTable) -> None:
    """Stop and remove all static pods of an earlier run, on a node that has no directory of manifests now."""
    for record in [each for each in pods if is_static(each.pod) and each.deletion is None]:
        await _delete(record.pod, engine)


async def _delete(pod: Pod, engine: PodEngine) -> None:
    try:
        await engine.delete(pod.namespace, pod.name)
    except (PodNotFound, StoreUnusable) as error:
        problem = "cannot delete pod %s/%s after its manifest went; delete it by hand: %s"
        logger.warning(problem, pod.namespace, pod.name, error)


def doubles(made: Mapping[Path, tuple[Pod, ...]]) -> dict[Path, str]:
    """The problem with each file that has a pod with the name or UID of one in an earlier file.

    It is used once the earlier one is gone.
    """
    takers: dict[tuple[str, ...], Path] = {}
    problems: dict[Path, str] = {}
    for path, pods in made.items():
        for pod in pods:
            identities = {(pod.namespace, pod.name): f"pod {pod.namespace}/{pod.name}", (pod.uid,): f"UID {pod.uid}"}
            for identity, what in identities.items():
                if identity in takers:
                    problems.setdefault(path, f"{path}: {what} is there twice; {takers[identity]} has the first one")
                takers.setdefault(identity, path)
    return problems
