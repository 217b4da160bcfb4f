"""Take over from a kubelet at start: read a checkpoint file that another program wrote."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import stat
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from plugbay.errors import CheckpointNotOurs, CorruptCheckpoint, PathUnusable, RpcFailed
from plugbay.kernel.files import write_durably
from plugbay.kubelet.checkpoint import load
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry, checksum
from plugbay.manager.config import ForeignCheckpoint, ManagerConfig
from plugbay.manager.state import HeldDevices
from plugbay.manager.store.commits import Replace, Stored
from plugbay.manager.store.store import Store
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.wire.convert import decode_edits

logger = logging.getLogger(__name__)


async def settle_checkpoint(config: ManagerConfig, store: Store, stored: Stored, now: datetime) -> Stored:
    """Choose the state to start with: from the checkpoint file, or from the store.

    A file with a valid checksum that is not ours is the truth: it replaces what the store holds. If the file is ours,
    missing or corrupt, the store is the truth. A corrupt file is kept beside the store, and so is anything that is not
    a file, such as a directory: no program can have kept its state there. A file that exists but cannot be read may
    hold a kubelet's state, so it stops the start: a kubelet would go on with nothing, and give devices that are in use
    to other pods.

    Raises:
        CheckpointNotOurs: another program wrote the file and ``config`` says to refuse it.
        PathUnusable: the file cannot be read.
        StoreUnusable: what was imported cannot be kept.
    """
    path = config.paths.checkpoint
    aside = config.store.with_name(f"{path.name}.corrupt-{now:%Y%m%dT%H%M%SZ}")
    content = await asyncio.to_thread(_read, path, aside)
    if content is None:
        return stored
    try:
        data = await asyncio.to_thread(load, content, source=str(path))
    except CorruptCheckpoint as error:
        logger.warning("%s; going on with the store's state", error)
        await asyncio.to_thread(_keep_aside, aside, content)
        return stored
    recorded = await asyncio.to_thread(checksum, data)
    if recorded in stored.view_checksums:
        return stored
    if config.on_foreign_checkpoint is ForeignCheckpoint.REFUSE:
        raise CheckpointNotOurs(str(path))
    imported = imported_state(data)
    # With its checksum, or a crash before the first view would import the file again, over newer admissions.
    imported = replace(imported, view_checksums=frozenset({recorded}), operations=stored.operations)
    await store.commit([Replace(imported)])
    logger.warning(
        "imported %d assignments and %d resources from %s, which another program wrote; %d assignments were replaced",
        len(imported.assignments),
        len(imported.resources),
        path,
        len(stored.assignments),
    )
    return imported


def imported_state(data: CheckpointData) -> Stored:
    """The state that a kubelet would restore from a checkpoint.

    If entries have the same pod, container and resource, the last one counts. An entry whose response cannot be decoded
    is logged and left out.

    Source: kubelet 1.36 ``cm/devicemanager/pod_devices.go``, ``fromCheckpointData``; spec 7.5.
    """
    usable = {
        (entry.pod_uid, entry.container_name, entry.resource_name): _assignment(entry)
        for entry in data.pod_device_entries or ()
        if _is_usable(entry)
    }
    resources = tuple(ResourceName(name) for name in sorted(data.registered_devices or ()))
    return Stored(tuple(usable.values()), resources)


def _is_usable(entry: PodDevicesEntry) -> bool:
    try:
        decode_edits(entry.alloc_resp or b"")
    except RpcFailed as error:
        logger.warning(
            "left out %s of pod %s, container %s: its response is %s",
            entry.resource_name,
            entry.pod_uid,
            entry.container_name,
            error.detail,
        )
        return False
    return True


def _assignment(entry: PodDevicesEntry) -> HeldDevices:
    return HeldDevices(
        PodUid(entry.pod_uid),
        ContainerName(entry.container_name),
        ResourceName(entry.resource_name),
        {node: _ids(ids or ()) for node, ids in (entry.device_ids or {}).items()},
        entry.alloc_resp or b"",
    )


def _ids(ids: Iterable[str]) -> tuple[DeviceId, ...]:
    return tuple(map(DeviceId, ids))


def _read(path: Path, aside: Path) -> bytes | None:
    """Read the file at ``path``, or return None; anything that is not a file is moved to ``aside``."""
    try:
        # Nonblocking, or opening a pipe would wait for its writer.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file.read()
    except (FileNotFoundError, NotADirectoryError):  # a problem of the directory is reported where it is made
        return None
    except OSError as error:
        if error.errno not in (errno.EISDIR, errno.ENXIO):  # a directory, a socket
            raise PathUnusable(str(path), f"cannot be read: {error.strerror}") from error
    try:
        path.rename(aside)
    except OSError as error:
        raise PathUnusable(str(path), f"is not a file, and cannot be moved away: {error.strerror}") from error
    logger.warning("%s is not a file; it was moved to %s, and the store's state counts", path, aside)
    return None


def _keep_aside(aside: Path, content: bytes) -> None:
    try:
        write_durably(aside, content)
    except OSError as error:
        logger.warning("cannot keep the corrupt checkpoint as %s: %s", aside, error)
    else:
        logger.warning("the corrupt checkpoint is kept as %s; remove it when nothing in it is needed", aside)
