"""The devices that a kubelet has given away, for a plugin process that has just started."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from plugbay.errors import CorruptCheckpoint, PathUnusable, RpcFailed
from plugbay.model.ids import DeviceId, ResourceName

if TYPE_CHECKING:
    from plugbay.cdi.spec import Edits
    from plugbay.kubelet.paths import KubeletPaths
    from plugbay.sdk.author.modes import Modes

logger = logging.getLogger(__name__)


async def restore_modes(modes: Modes, paths: KubeletPaths) -> None:
    """Tell ``modes`` which devices are in use, once for each resource, as well as can be known."""
    if modes.unrestored:
        modes.restore(await assigned_devices(paths))


async def assigned_devices(paths: KubeletPaths) -> Mapping[ResourceName, Collection[DeviceId]]:
    """The devices that pods hold, by resource: by the checkpoint, or else by PodResources.

    The checkpoint comes first because it has init containers too, and because reading it changes nothing: asking a
    stock kubelet for its list makes it drop assignments, also while an Allocate runs (spec 4.9.2).
    """
    try:
        return await asyncio.to_thread(assigned_by_checkpoint, paths)
    except FileNotFoundError:
        if not await asyncio.to_thread(paths.pod_resources_socket.exists):
            return {}  # no kubelet ever gave anything away here
        problem = "there is no checkpoint"
    except (OSError, CorruptCheckpoint) as error:
        problem = str(error)
    try:
        return await _by_pod_resources(paths)
    except RpcFailed as error:
        logger.warning("cannot find out which devices are in use; assuming none: %s; PodResources: %s", problem, error)
        return {}


def assigned_by_checkpoint(
    paths: KubeletPaths, cdi_directory: Path | None = None
) -> Mapping[ResourceName, Mapping[DeviceId, Collection[str]]]:
    """The devices that pods hold, by resource, each with the host's paths that its container was given. Blocks.

    Args:
        cdi_directory: of the specs by which devices that were given by their names in CDI have paths.

    Raises:
        FileNotFoundError: there is no checkpoint; a kubelet writes the first one when it allocates a device.
        OSError, CorruptCheckpoint: it cannot be read.
    """
    # Imported here: not every plugin needs it.
    from plugbay.kubelet.checkpoint import load

    content = load(paths.checkpoint.read_bytes(), source=str(paths.checkpoint))
    by_cdi = cache(partial(_host_paths_by_cdi, cdi_directory))  # specs may be large, and are read for all pods at once
    assigned: dict[ResourceName, dict[DeviceId, Collection[str]]] = {}
    for entry in content.pod_device_entries or ():
        given = _host_paths(entry.alloc_resp or b"", by_cdi)
        ids = assigned.setdefault(ResourceName(entry.resource_name), {})
        for on_node in (entry.device_ids or {}).values():
            ids.update(dict.fromkeys(map(DeviceId, on_node or ()), given))
    return assigned


def _host_paths(response: bytes, by_cdi: Callable[[], Mapping[str, Sequence[str]]]) -> tuple[str, ...]:
    from plugbay.wire.convert import decode_edits  # as above

    try:
        edits = decode_edits(response)
    except RpcFailed:
        return ()  # a kubelet may have kept what no plugin says
    own = (*(node.host_path for node in edits.device_nodes), *(mount.host_path for mount in edits.mounts))
    return (*own, *(path for name in edits.cdi_devices for path in by_cdi().get(name, ())))


def _host_paths_by_cdi(directory: Path | None) -> Mapping[str, Sequence[str]]:
    """The paths of the devices that specs still have, by their names in CDI."""
    if directory is None:
        return {}
    from plugbay.cdi.directories import scan  # as above

    try:
        devices = scan([directory]).devices
    except PathUnusable:
        return {}
    return {str(name): _paths_in(entry.device.edits) for name, entry in devices.items()}


def _paths_in(edits: Edits) -> Sequence[str]:
    nodes = (node.host_path or node.path for node in edits.device_nodes)
    return (*nodes, *(mount.host_path for mount in edits.mounts))


async def _by_pod_resources(paths: KubeletPaths) -> Mapping[ResourceName, Collection[DeviceId]]:
    from plugbay.kubelet.podresources import PodResourcesClient
    from plugbay.model.podresources import distinct_devices

    async with PodResourcesClient(paths.pod_resources_socket) as client:
        pods = await client.list()
    return distinct_devices(devices for pod in pods for container in pod.containers for devices in container.devices)
