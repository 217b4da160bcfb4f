"""The contents of a device manager checkpoint, and the text its checksum is computed over. Pure.

Null, missing and empty differ in the checksum, so the values distinguish them: ``None`` is null. Lists keep their
order and are hashed in it; maps are hashed in the order of their keys.

Compatibility: the type names in the text are those of a package inside the kubelet. They are part of the format and
never change, nor has the format since kubelet 1.20; it carries no version. Files are read and written by `checkpoint`.

Source: kubelet 1.36 ``cm/devicemanager/checkpoint/checkpoint.go``, ``pkg/util/hash``; spec 7.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Final, TypeAlias

from plugbay.kubelet.fnv import fnv1a
from plugbay.values import dataclass

DUMP_START: Final = b"(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)"
DUMP_MIDDLE: Final = b" RegisteredDevices:(map[string][]string)"
DUMP_END: Final = b"}"
DUMP_NULL: Final = b"<nil>"

DeviceIds: TypeAlias = Mapping[int, Sequence[str] | None] | None
"""NUMA node, -1 for none, to device IDs."""


@dataclass(frozen=True, slots=True)
class PodDevicesEntry:
    """Devices of one resource that one container holds.

    Attributes:
        alloc_resp: encoded ContainerAllocateResponse.
    """

    pod_uid: str = ""
    container_name: str = ""
    resource_name: str = ""
    device_ids: DeviceIds = None
    alloc_resp: bytes | None = None


@dataclass(frozen=True, slots=True)
class CheckpointData:
    """The part of a checkpoint that the checksum protects.

    Attributes:
        registered_devices: resource name to the devices that were healthy when the file was written.
    """

    pod_device_entries: Sequence[PodDevicesEntry] | None = ()
    registered_devices: Mapping[str, Sequence[str] | None] | None = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint file.

    Attributes:
        checksum: as recorded; 0 where the file has none.
    """

    data: CheckpointData
    checksum: int


def checksum(data: CheckpointData) -> int:
    return fnv1a(dump(data))


def dump_by_node(device_ids: DeviceIds) -> bytes:
    """The nodes in the order of their numbers; in the file they are in the order of their texts."""
    if device_ids is None:
        return b"(checkpoint.DevicesPerNUMA)" + DUMP_NULL
    lists = (b"%d:%b" % (node, dump_list(device_ids[node])) for node in sorted(device_ids))
    return b"(checkpoint.DevicesPerNUMA)map[%b]" % b" ".join(lists)


def dump(data: CheckpointData, dump_devices: Callable[[DeviceIds], bytes] = dump_by_node) -> bytes:
    """The text the checksum is computed over.

    Args:
        dump_devices: the text for the devices of an entry, with the name of their type.
    """
    entries, registered = data.pod_device_entries, data.registered_devices
    return b"".join(
        [
            DUMP_START,
            DUMP_NULL if entries is None else b"[%b]" % b" ".join(dump_entry(entry, dump_devices) for entry in entries),
            DUMP_MIDDLE,
            DUMP_NULL if registered is None else _dump_registered(registered),
            DUMP_END,
        ]
    )


def dump_entry(entry: PodDevicesEntry, dump_devices: Callable[[DeviceIds], bytes] = dump_by_node) -> bytes:
    return (
        b"{PodUID:(string)%b ContainerName:(string)%b ResourceName:(string)%b DeviceIDs:%b AllocResp:([]uint8)%b}"
        % (
            entry.pod_uid.encode(),
            entry.container_name.encode(),
            entry.resource_name.encode(),
            dump_devices(entry.device_ids),
            DUMP_NULL if entry.alloc_resp is None else b"[%b]" % " ".join(map(str, entry.alloc_resp)).encode(),
        )
    )


def dump_list(texts: Sequence[str] | None) -> bytes:
    return DUMP_NULL if texts is None else f"[{' '.join(texts)}]".encode()


def _dump_registered(registered: Mapping[str, Sequence[str] | None]) -> bytes:
    return b"map[%b]" % b" ".join(
        b"%b:%b" % (name.encode(), dump_list(registered[name])) for name in sorted(registered)
    )
