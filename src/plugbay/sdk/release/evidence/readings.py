"""Getting a checkpoint that is newer than the question.

A kubelet writes its checkpoint after every list of devices that it reads, changed or not, also while it waits for an
Allocate of ours, and then without the assignment that this call is for (spec 3.2, 4.10). So: send the list again, wait
until another file has been renamed into place, read it.

What was renamed may be another writer's, with a snapshot from before the question: see `uses.ENOUGH_ABSENCES`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugbay.errors import CheckpointUnread, CorruptCheckpoint
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.sdk.release.uses import KubeletLife, Reading
from plugbay.sdk.sockets import identify

if TYPE_CHECKING:
    from plugbay.kubelet.checkpoint_data import CheckpointData
    from plugbay.kubelet.paths import KubeletPaths
    from plugbay.sdk.watching import Watches

DEADLINE_S: Final = 2.0
"""Kubelets have been seen to need 1 to 2 ms; a slow disk may take a thousand times that."""

_FileId = tuple[int, int, int]


class Readings:
    """The checkpoint of the kubelet at ``paths``, as far as it concerns ``resource``.

    Args:
        resend: sends the list of devices again; returns to how many kubelets.

    Attributes:
        life: the one that was known last.
    """

    def __init__(
        self, paths: KubeletPaths, resource: ResourceName, watches: Watches, *, resend: Callable[[], int]
    ) -> None:
        self._paths = paths
        self._resource = resource
        self._watches = watches
        self._resend = resend
        self.life: KubeletLife | None = None

    @property
    def path(self) -> Path:
        """The checkpoint."""
        return self._paths.checkpoint

    async def meet(self, *, known_to: Collection[str], store: str = "") -> KubeletLife:
        """Find out which life of the kubelet this is. Call this when it asks for our list and has not got it yet.

        A new life counts from here on. If a device was in use as it began, this also looks whether it has begun with
        the checkpoint of the life before: it has not written a file that is older than its socket. Assignments that the
        life before had not got from an earlier one are lost for good, so only an unbroken line of heirs counts. A
        kubelet that names the store it begins with has all that earlier lives with this store had, and nothing of lives
        with another store.

        Args:
            known_to: the lives that have known of the uses; a life that no process has met is empty.
            store: as the kubelet has named it; empty if it has not.

        Raises:
            CheckpointUnread: there is no kubelet.
        """
        life_id = self._life_id()
        if self.life is None or self.life.id != life_id:
            since = asyncio.get_running_loop().time()
            before = {""} if self.life is None else {self.life.id, *self.life.heir_of}
            heir_of = before.intersection(known_to)
            if heir_of and not await self._is_heir(store, int(life_id.partition("-")[2])):
                heir_of = set()
            self.life = KubeletLife(life_id, since, frozenset(heir_of), store)
        elif store and not self.life.store:  # it was met by a version of this program that did not ask
            self.life = replace(self.life, store=store)
        return self.life

    async def _is_heir(self, store: str, started_ns: int) -> bool:
        if store and self.life is not None and self.life.store:
            return store == self.life.store
        return await asyncio.to_thread(self._is_from_before, started_ns)

    def on_disk(self, at: float) -> Reading:
        """Read the file that is there, however old; the reading lists nothing if that fails. Blocks.

        A kubelet that is up has begun with it or has written it, so it knows what is listed. If none is up the life
        has an empty ``id``.
        """
        try:
            return self.found(at)
        except CheckpointUnread:
            return Reading(at, KubeletLife("", at), {})

    def found(self, at: float) -> Reading:
        """Read it as `on_disk`; the reading lists nothing only if no kubelet could read the file. Blocks.

        Raises:
            CheckpointUnread: it is there, and cannot be read now.
        """
        life_id = self._found_life_id()
        try:
            listed = holders(self._load(), self._resource)
        except (FileNotFoundError, NotADirectoryError, CorruptCheckpoint):
            listed = {}
        except OSError as error:
            raise CheckpointUnread(f"{self._paths.checkpoint}: {error.strerror}") from error
        is_its = life_id == self._found_life_id()  # else it has just restarted
        return Reading(at, KubeletLife(life_id if is_its else "", at), listed)

    async def read(self, pods: Collection[PodUid] = ()) -> Reading:
        """Make the kubelet write its checkpoint, and read it.

        Args:
            pods: the reading tells which of these are gone.

        Raises:
            CheckpointUnread: no reading that can be relied on came in time.
        """
        loop = asyncio.get_running_loop()
        life = self._present_life()
        before = _identify(self._paths.checkpoint)
        with self._watches.watch([self._paths.checkpoint]) as changes:
            if not self._resend():
                raise CheckpointUnread("no kubelet reads our list, so none can be made to write it")
            try:
                async with asyncio.timeout(DEADLINE_S):
                    while _identify(self._paths.checkpoint) in (before, None):
                        await anext(changes)
            except TimeoutError:
                raise CheckpointUnread(
                    f"{self._paths.checkpoint} was not written within {DEADLINE_S:g} s of sending it our list"
                ) from None
        at = loop.time()
        data, gone = await asyncio.to_thread(self._read, pods)
        if self._resource not in (data.registered_devices or {}):
            raise CheckpointUnread(f"it does not name {self._resource}, so another kubelet may have written it")
        if self._present_life() is not life:
            raise CheckpointUnread("the kubelet has just restarted")
        return Reading(at, life, holders(data, self._resource), gone)

    def _present_life(self) -> KubeletLife:
        if self.life is None or self.life.id != self._life_id():
            raise CheckpointUnread("the kubelet has just restarted")
        return self.life

    def _life_id(self) -> str:
        socket = identify(self._paths.registration_socket)
        if socket is None:
            raise CheckpointUnread(f"there is no {self._paths.registration_socket}")
        return "-".join(map(str, socket))

    def _found_life_id(self) -> str:
        try:
            return self._life_id()
        except CheckpointUnread:
            return ""

    def _is_from_before(self, started_ns: int) -> bool:
        try:
            written_ns = self._paths.checkpoint.stat().st_mtime_ns
            self._load()  # a file that is not a checkpoint is not taken over
        except (OSError, CorruptCheckpoint):
            return False  # then it has begun with nothing
        return written_ns < started_ns

    def _read(self, pods: Collection[PodUid]) -> tuple[CheckpointData, frozenset[PodUid]]:
        try:
            data = self._load()
        except OSError as error:
            raise CheckpointUnread(f"{self._paths.checkpoint}: {error.strerror}") from error
        except CorruptCheckpoint as error:
            raise CheckpointUnread(str(error)) from error
        return data, frozenset(pod for pod in pods if pod and _is_gone(self._paths.root / "pods", pod))

    def _load(self) -> CheckpointData:
        # Imported here: it is needed once something is in use.
        from plugbay.kubelet.checkpoint import load

        return load(self._paths.checkpoint.read_bytes(), source=str(self._paths.checkpoint))


def holders(data: CheckpointData, resource: ResourceName) -> dict[DeviceId, frozenset[tuple[PodUid, ContainerName]]]:
    """The holders of each device of ``resource``; several containers of a pod may hold one."""
    found: dict[DeviceId, set[tuple[PodUid, ContainerName]]] = {}
    for entry in data.pod_device_entries or ():
        if entry.resource_name == resource:
            holder = PodUid(entry.pod_uid), ContainerName(entry.container_name)
            for on_node in (entry.device_ids or {}).values():
                for device in on_node or ():
                    found.setdefault(DeviceId(device), set()).add(holder)
    return {device: frozenset(by) for device, by in found.items()}


def _is_gone(pods: Path, uid: PodUid) -> bool:
    """Whether the kubelet has removed a pod's directory, which it does once all is stopped and unmounted.

    This is judged only where such directories are visible: another pod's directory has to be there.
    """
    try:
        return "/" not in uid and not (pods / uid).is_dir() and any(pods.iterdir())
    except OSError:
        return False


def _identify(path: Path) -> _FileId | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns
