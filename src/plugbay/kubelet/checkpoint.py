"""Read and write checkpoint files: JSON to values and back. Pure.

Compatibility: files are accepted and rejected as by kubelet 1.36, golden files included. The files we write have the
members, the order and the spelling of a kubelet's.

Source: kubelet 1.36 ``cm/devicemanager/checkpoint/checkpoint.go``; spec 7.2, 7.5.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from plugbay.documents import go_json, go_types
from plugbay.errors import CorruptCheckpoint
from plugbay.kubelet.checkpoint_data import Checkpoint, CheckpointData, DeviceIds, PodDevicesEntry, checksum

ReadDevices: TypeAlias = Callable[[DeviceIds, go_json.Value], DeviceIds]


def load(content: bytes, *, source: str) -> CheckpointData:
    """Read a checkpoint file.

    Args:
        source: where the content was read, for the error.

    Raises:
        CorruptCheckpoint: the content is not readable, or its checksum is not the recorded one.
    """
    checkpoint = parse(content, source=source)
    computed = checksum(checkpoint.data)
    if checkpoint.checksum != computed:
        raise CorruptCheckpoint(source, f"checksum is {checkpoint.checksum}, the content's is {computed}")
    return checkpoint.data


def parse(
    content: bytes,
    *,
    source: str,
    read_devices: ReadDevices | None = None,
) -> Checkpoint:
    """Read a checkpoint file whether its checksum fits or not.

    Args:
        read_devices: reads ``DeviceIDs`` of an entry, given the value of an earlier member of this name.

    Raises:
        CorruptCheckpoint: not JSON, or of another shape.
    """
    try:
        return _checkpoint(go_json.parse(content), read_devices or _by_node)
    except go_json.NotJson as error:
        raise CorruptCheckpoint(source, _problem(error)) from None
    except go_types.NotDecodable as error:
        raise CorruptCheckpoint(source, str(error)) from None


def _problem(error: go_json.NotJson) -> str:
    if error.line is not None:
        return f"it is not JSON at line {error.line}, column {error.column}"
    return f"it is {str(error).removeprefix('is ')}"


def encode(data: CheckpointData) -> bytes:
    """Write ``data`` as a file; lists keep their order."""
    entries = data.pod_device_entries
    return compose(
        None if entries is None else map(encode_entry, entries),
        "null" if data.registered_devices is None else _object_of_lists(data.registered_devices),
        checksum(data),
    )


def compose(entries: Iterable[str] | None, registered: str, sum_of_data: int) -> bytes:
    """Make a file of parts that are encoded already."""
    listed = "null" if entries is None else f"[{','.join(entries)}]"
    data = f'{{"PodDeviceEntries":{listed},"RegisteredDevices":{registered}}}'
    return f'{{"Data":{data},"Checksum":{sum_of_data}}}'.encode()


def encode_entry(entry: PodDevicesEntry) -> str:
    device_ids, alloc_resp = entry.device_ids, entry.alloc_resp
    by_node = None if device_ids is None else {str(node): ids for node, ids in device_ids.items()}
    response = "null" if alloc_resp is None else f'"{binascii.b2a_base64(alloc_resp, newline=False).decode()}"'
    return (
        f'{{"PodUID":{go_json.quoted(entry.pod_uid)},"ContainerName":{go_json.quoted(entry.container_name)},'
        f'"ResourceName":{go_json.quoted(entry.resource_name)},'
        f'"DeviceIDs":{"null" if by_node is None else _object_of_lists(by_node)},"AllocResp":{response}}}'
    )


def _object_of_lists(lists: Mapping[str, Sequence[str] | None]) -> str:
    """Go sorts the member names as texts, numbers included."""
    lists_by_name = (f"{go_json.quoted(name)}:{_list(lists[name])}" for name in sorted(lists))
    return f"{{{','.join(lists_by_name)}}}"


def _list(texts: Sequence[str] | None) -> str:
    return "null" if texts is None else go_json.quoted_list(texts)


# --- reading: repeated members are read one after the other, each into what the ones before left --------------------


def _checkpoint(document: go_json.Value, read_devices: ReadDevices) -> Checkpoint:
    data, recorded = _Data(), 0
    for name, value in _members(document, "the document"):
        match go_json.folded(name):
            case "data":
                data.read(value, read_devices)
            case "checksum" if value is not None:
                recorded = go_types.unsigned(value, "Checksum", 64)
    return Checkpoint(data.value(), recorded)


class _Data:
    def __init__(self) -> None:
        self._entries: go_types.Slice[_Entry] = go_types.Slice()
        self._registered: Mapping[str, Sequence[str] | None] | None = {}

    def read(self, value: go_json.Value, read_devices: ReadDevices) -> None:
        for name, member in _members(value, "Data"):
            match go_json.folded(name):
                case "poddeviceentries":
                    read = partial(_Entry.read, read_devices=read_devices)
                    self._entries.read(member, "PodDeviceEntries", read, _Entry)
                case "registereddevices":
                    self._registered = _registered(self._registered, member)

    def value(self) -> CheckpointData:
        entries = self._entries.elements
        return CheckpointData(None if entries is None else tuple(map(_Entry.value, entries)), self._registered)


class _Entry:
    def __init__(self) -> None:
        self._names = dict.fromkeys(("poduid", "containername", "resourcename"), "")
        self._device_ids: DeviceIds = None
        self._alloc_resp: bytes | None = None
        self._octets: go_types.Slice[int] = go_types.Slice()

    def read(self, value: go_json.Value, read_devices: ReadDevices) -> _Entry:
        for name, member in _members(value, "an item of PodDeviceEntries"):
            match go_json.folded(name):
                case "poduid" | "containername" | "resourcename" as known:
                    self._names[known] = self._names[known] if member is None else go_types.text(member, name)
                case "deviceids":
                    self._device_ids = read_devices(self._device_ids, member)
                case "allocresp":
                    go_types.read_octets(self._octets, member, "AllocResp")
                    octets = self._octets.elements
                    self._alloc_resp = None if octets is None else bytes(octets)
        return self

    def value(self) -> PodDevicesEntry:
        pod_uid, container_name, resource_name = self._names.values()
        return PodDevicesEntry(pod_uid, container_name, resource_name, self._device_ids, self._alloc_resp)


def _by_node(before: DeviceIds, value: go_json.Value) -> DeviceIds:
    if value is None:
        return None
    lists = go_types.members(value, "DeviceIDs")
    read = {go_types.integer_key(name, "a node of DeviceIDs"): go_types.texts(ids, "DeviceIDs") for name, ids in lists}
    return {**(before or {}), **read}


def _registered(
    before: Mapping[str, Sequence[str] | None] | None, value: go_json.Value
) -> Mapping[str, Sequence[str] | None] | None:
    if value is None:
        return None
    lists = go_types.members(value, "RegisteredDevices")
    return {**(before or {}), **{name: go_types.texts(ids, f"RegisteredDevices of {name}") for name, ids in lists}}


def _members(value: go_json.Value, what: str) -> Iterable[tuple[str, go_json.Value]]:
    """The members of an object; null leaves a structure as it is."""
    return () if value is None else go_types.members(value, what)
