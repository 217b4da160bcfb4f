"""Checkpoints of kubelet 1.19 and older, where the devices of an entry are a plain list. Pure.

Kubelets since 1.30 do not read them, and our manager does not either; `plugbay checkpoint convert` does.

Source: kubelet 1.19 ``cm/devicemanager/checkpoint/checkpoint.go``, PR #102882; spec 7.6.
"""

from __future__ import annotations

from plugbay.documents import go_json, go_types
from plugbay.kubelet.checkpoint import parse
from plugbay.kubelet.checkpoint_data import Checkpoint, CheckpointData, DeviceIds, dump, dump_list
from plugbay.kubelet.fnv import fnv1a

_NODE = 0
"""The NUMA node to which kubelets 1.20 to 1.29 assigned the devices of an old file, which names no nodes."""


def parse_old(content: bytes, *, source: str) -> Checkpoint:
    """Read a file in the old format, its devices on NUMA node 0, whether its checksum fits or not.

    Raises:
        CorruptCheckpoint: the content is not JSON or has another shape, as a file in the current format has.
    """
    return parse(content, source=source, read_devices=_plain_list)


def old_checksum(data: CheckpointData) -> int:
    """The checksum that a file in the old format has for ``data``, as `parse_old` returned it."""
    return fnv1a(dump(data, _dump_plain_list))


def _plain_list(_: DeviceIds, value: go_json.Value) -> DeviceIds:
    ids = go_types.texts(value, "DeviceIDs")
    return None if ids is None else {_NODE: ids}


def _dump_plain_list(device_ids: DeviceIds) -> bytes:
    return b"([]string)" + dump_list(None if device_ids is None else device_ids[_NODE])
