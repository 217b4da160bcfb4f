"""The answers to Allocate that a pod's containers were given, from the checkpoint."""

from __future__ import annotations

from pathlib import Path

from plugbay.documents import Json
from plugbay.errors import CorruptCheckpoint, RpcFailed
from plugbay.kubelet.checkpoint import parse
from plugbay.kubelet.checkpoint_data import PodDevicesEntry
from plugbay.model.edits import ContainerEdits
from plugbay.wire.convert import decode_edits


def read_given(checkpoint: Path, uid: str) -> list[Json]:
    """An entry for each container and resource of the pod.

    Raises:
        OSError, CorruptCheckpoint: the checkpoint cannot be read.
    """
    data = parse(checkpoint.read_bytes(), source=str(checkpoint)).data
    return [_entry(entry) for entry in data.pod_device_entries or () if entry.pod_uid == uid]


def problem_of(error: OSError | CorruptCheckpoint) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _entry(entry: PodDevicesEntry) -> Json:
    found: Json = {
        "container": entry.container_name,
        "resource": entry.resource_name,
        "devices": [device for ids in (entry.device_ids or {}).values() for device in ids or ()],
    }
    try:
        return found | _edits(decode_edits(entry.alloc_resp or b""))
    except RpcFailed as error:
        return found | {"problem": str(error)}


def _edits(edits: ContainerEdits) -> Json:
    return {
        "env": dict(edits.env),
        "mounts": [
            {"from": each.host_path, "to": each.container_path, "isReadOnly": each.read_only} for each in edits.mounts
        ],
        "nodes": [
            {"from": each.host_path, "to": each.container_path, "permissions": each.permissions}
            for each in edits.device_nodes
        ],
        "annotations": dict(edits.annotations),
        "cdi": list(edits.cdi_devices),
    }
