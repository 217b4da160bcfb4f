"""One look at everything a node of ours shows to outsiders, in the form of a recording's snapshot."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from plugbay.errors import CorruptCheckpoint, RpcFailed
from plugbay.kernel.watch import watch_paths
from plugbay.kubelet.checkpoint import parse
from plugbay.kubelet.checkpoint_data import checksum
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.podresources import ContainerDevices, PodResources
from plugbay.node.control import RunningNode
from plugbay.wire.convert import decode_edits
from plugbay.wire.podresources import PodResourcesCalls
from tests.replay.compare import comparable_checkpoint, is_like
from tests.replay.notebook import Notebook, counts
from tests.replay.places import Places
from tests.replay.recording import Json, Snapshot, ended_pods

PATIENCE_S: Final = 5.0
"""How long to wait for the checkpoint to say what was recorded."""


class Looker:
    """
    Args:
        recorded_ids: device identifiers of a resource as in the recording.
        unlike: patterns of what is not waited for.
    """

    def __init__(
        self,
        paths: KubeletPaths,
        notebook: Notebook,
        places: Places,
        *,
        recorded_ids: Callable[[str, Iterable[str]], list[str]],
        unlike: Collection[str],
    ) -> None:
        self._paths = paths
        self._notebook = notebook
        self._places = places
        self._recorded_ids = recorded_ids
        self._unlike = unlike

    async def look(self, running: RunningNode, wanted: Snapshot) -> Json:
        """What ``wanted`` has, as it is here."""
        found: Json = {"node": counts(running), "ended": ended_pods(self._notebook.pods)}
        if "checkpoint" in wanted.seen:
            found["checkpoint"] = await self._checkpoint(wanted)
        if "podresources" in wanted.seen:
            found["podresources"] = await self._pod_resources(wanted.seen["podresources"].get("v1_get", {}))
        return found

    async def _checkpoint(self, wanted: Snapshot) -> Json:
        """The file, which follows what happens with a delay: when it says what was recorded, or at the last."""
        path, ended = self._paths.checkpoint, wanted.seen["ended"]
        recorded = {
            part: value
            for part, value in comparable_checkpoint(wanted.seen["checkpoint"], ended).items()
            if not is_like(f"snapshots/{wanted.key}/{part}", self._unlike)
        }

        def is_current(found: Json) -> bool:
            return recorded.items() <= comparable_checkpoint(found, ended).items()

        found: Json = {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S), watch_paths([path]) as changes:
                while not is_current(found := self._read_checkpoint(path)):
                    await anext(aiter(changes))
        return found

    def _read_checkpoint(self, path: Path) -> Json:
        try:
            checkpoint = parse(path.read_bytes(), source=str(path))
        except (FileNotFoundError, CorruptCheckpoint) as error:
            return {"error": str(error)}
        entries = checkpoint.data.pod_device_entries
        return {
            "mode": f"{path.stat().st_mode & 0o7777:04o}",
            "sum_valid": checkpoint.checksum == checksum(checkpoint.data),
            "entries": [
                {
                    "pod": f"<uid {self._notebook.uids.get(entry.pod_uid, entry.pod_uid)}>",
                    "container": entry.container_name,
                    "resource": entry.resource_name,
                    "devices": {str(node): list(ids or ()) for node, ids in (entry.device_ids or {}).items()},
                    "response": self._response(entry.alloc_resp or b""),
                }
                for entry in entries or ()
            ],
            "registered": {
                name: self._recorded_ids(name, ids or ())
                for name, ids in (checkpoint.data.registered_devices or {}).items()
            },
        }

    def _response(self, encoded: bytes) -> Json:
        edits = decode_edits(encoded)
        return {
            "envs": dict(edits.env),
            "mounts": [
                [each.container_path, self._places.recorded(each.host_path), each.read_only] for each in edits.mounts
            ],
            "devices": [
                [each.container_path, self._places.recorded(each.host_path), each.permissions]
                for each in edits.device_nodes
            ],
            "annotations": dict(edits.annotations),
            "cdi_devices": list(edits.cdi_devices),
        }

    async def _pod_resources(self, gets: Mapping[str, Any]) -> Json:
        calls = PodResourcesCalls(self._paths.pod_resources_socket, timeout_s=10)
        try:
            allocatable = await calls.allocatable_v1()
            return {
                "v1_list": [_pod(each) for each in await calls.list_v1()],
                "v1alpha1_list": [_pod(each) for each in await calls.list_v1alpha1()],
                "v1_allocatable": {
                    "devices": [
                        {**_devices(each), "device_ids": self._recorded_ids(each.resource, each.device_ids)}
                        for each in allocatable.devices
                    ]
                },
                "v1_get": {name: await _get(calls, name) for name in gets},
            }
        finally:
            await calls.close()


async def _get(calls: PodResourcesCalls, name: str) -> Json:
    try:
        return _pod(await calls.get_v1("default", name))
    except RpcFailed as error:
        return {"error": [error.code.value.upper(), error.detail]}


def _pod(pod: PodResources) -> Json:
    containers = [{"name": each.name, "devices": [_devices(item) for item in each.devices]} for each in pod.containers]
    return {"name": pod.name, "namespace": pod.namespace, "containers": containers}


def _devices(item: ContainerDevices) -> Json:
    nodes = None if item.numa_nodes is None else list(item.numa_nodes)
    return {"resource_name": item.resource, "device_ids": list(item.device_ids), "numa_nodes": nodes}
