"""The devices that a kubelet has given away, for a plugin process that has just started."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from plugbay.errors import CorruptCheckpoint, PathUnusable, RpcFailed
from plugbay.model.ids import DeviceId, ResourceName

if TYPE_CHECKING:
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
    assigned: dict[ResourceName, dict[DeviceId, Collection[str]]] = {}
    for entry in content.pod_device_entries or ():
        given = _host_paths(entry.alloc_resp or b"", cdi_directory)
        ids = assigned.setdefault(ResourceName(entry.resource_name), {})
        for on_node in (entry.device_ids or {}).values():
            ids.update(dict.fromkeys(map(DeviceId, on_node or ()), given))
    return assigned


def _host_paths(response: bytes, cdi_directory: Path | None) -> tuple[str, ...]:
    from plugbay.wire.convert import decode_edits  # as above

    try:
        edits = decode_edits(response)
    except RpcFailed:
        return ()  # a kubelet may have kept what no plugin says
    own = (*(node.host_path for node in edits.device_nodes), *(mount.host_path for mount in edits.mounts))
    if cdi_directory is None or not edits.cdi_devices:
        return own
    return (*own, *_host_paths_by_cdi(edits.cdi_devices, cdi_directory))


def _host_paths_by_cdi(names: Iterable[str], directory: Path) -> Iterator[str]:
    """The paths of those of ``names`` that a spec still has."""
    from plugbay.cdi.directories import scan  # as above

    try:
        devices = {str(name): entry.device.edits for name, entry in scan([directory]).devices.items()}
    except PathUnusable:
        return
    for edits in (devices[name] for name in names if name in devices):
        yield from (node.host_path or node.path for node in edits.device_nodes)
        yield from (mount.host_path for mount in edits.mounts)


async def _by_pod_resources(paths: KubeletPaths) -> Mapping[ResourceName, Collection[DeviceId]]:
    from plugbay.kubelet.podresources import PodResourcesClient
    from plugbay.model.podresources import distinct_devices

    async with PodResourcesClient(paths.pod_resources_socket) as client:
        pods = await client.list()
    return distinct_devices(devices for pod in pods for container in pod.containers for devices in container.devices)
