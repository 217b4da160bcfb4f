"""Checkpoints as pages for users and as objects for programs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from plugbay.cli.printing.table import NONE, Columns, Description
from plugbay.documents import Json
from plugbay.errors import RpcFailed, quote
from plugbay.kubelet.checkpoint_data import Checkpoint, CheckpointData, DeviceIds, PodDevicesEntry, checksum
from plugbay.model.edits import ContainerEdits
from plugbay.wire.convert import decode_edits

_NO_NODE: Final = -1
_APART: Final = frozenset(' ",;')
"""Characters that stand between words, and around quoted words."""


def checkpoint_page(checkpoint: Checkpoint) -> str:
    """Tables of entries and registered devices, then the responses that give something."""
    entries = checkpoint.data.pod_device_entries or ()
    registered = checkpoint.data.registered_devices or {}
    text = f"Checksum:  {checksum_text(checkpoint)}\n\n"
    text += Columns(("POD", "CONTAINER", "RESOURCE", "DEVICES")).table(
        (*map(shown, _key(entry)), devices_text(entry.device_ids) or NONE) for entry in entries
    )
    text += "\n" + Columns(("REGISTERED RESOURCE", "HEALTHY", "DEVICES")).table(
        (shown(name), str(len(registered[name] or ())), _listed(registered[name] or ()) or NONE)
        for name in sorted(registered)
    )
    return text + "".join(_response_page(entry) for entry in entries)


def checksum_text(checkpoint: Checkpoint) -> str:
    computed = checksum(checkpoint.data)
    if checkpoint.checksum == computed:
        return f"{computed} (valid)"
    return f"{checkpoint.checksum} (invalid: the content's is {computed})"


def checkpoint_object(checkpoint: Checkpoint) -> Json:
    """All of a checkpoint, its responses decoded; null stays null."""
    data, computed = checkpoint.data, checksum(checkpoint.data)
    entries = data.pod_device_entries
    registered = data.registered_devices
    return {
        "checksum": {
            "recorded": checkpoint.checksum,
            "computed": computed,
            "valid": checkpoint.checksum == computed,
        },
        "podDeviceEntries": None if entries is None else [_entry_object(entry) for entry in entries],
        "registeredDevices": None if registered is None else {name: _list(ids) for name, ids in registered.items()},
    }


def difference(before: CheckpointData, after: CheckpointData) -> Iterator[str]:
    """A line with ``-`` for each fact that only ``before`` has, one with ``+`` for ``after``; order does not matter."""
    old, new = _said(before), _said(after)
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) == new.get(key):
            continue
        if key in old:
            yield f"- {' '.join(map(shown, key))}: {old[key]}"
        if key in new:
            yield f"+ {' '.join(map(shown, key))}: {new[key]}"


def devices_text(device_ids: DeviceIds) -> str:
    """Write devices as ``a,b; NUMA 0: c``, sorted by node."""
    nodes = sorted(device_ids or {})
    return "; ".join(
        f"{'' if node == _NO_NODE else f'NUMA {node}: '}{_listed((device_ids or {})[node] or ())}" for node in nodes
    )


def shown(text: str) -> str:
    """``text`` as a word: in quotes when it would not be taken for one, being empty or having spaces or line ends."""
    is_word = text.isprintable() and not _APART.intersection(text)
    return text if text and is_word else quote(text)


def _listed(ids: Iterable[str]) -> str:
    return ",".join(map(shown, ids))


def _key(entry: PodDevicesEntry) -> tuple[str, str, str]:
    return entry.pod_uid, entry.container_name, entry.resource_name


def edits_texts(edits: ContainerEdits) -> Iterator[str]:
    """The edits of a container, each on a line."""
    for name, value in sorted(edits.env.items()):
        yield f"env {_line(name)}={_line(value)}"
    for mount in edits.mounts:
        yield f"mount {mount.container_path} from {mount.host_path}{' read-only' if mount.read_only else ''}"
    for node in edits.device_nodes:
        yield f"device {node.container_path} from {node.host_path} {node.permissions}".rstrip()
    for key, value in sorted(edits.annotations.items()):
        yield f"annotation {_line(key)}={_line(value)}"
    for name in edits.cdi_devices:
        yield f"cdi {name}"


def _line(text: str) -> str:
    """``text`` in quotes when it would not stay on its line."""
    return text if text.isprintable() else quote(text)


def response_texts(response: bytes | None) -> list[str]:
    try:
        return list(edits_texts(decode_edits(response or b"")))
    except RpcFailed:
        return [f"a response that cannot be decoded: {(response or b'').hex()}"]


def _response_page(entry: PodDevicesEntry) -> str:
    if not entry.alloc_resp:
        return ""
    page = Description()
    page.line("")
    page.items(f"Response for {' '.join(map(shown, _key(entry)))}", response_texts(entry.alloc_resp))
    return f"{page}".rstrip("\n") + "\n"


def _said(data: CheckpointData) -> Mapping[tuple[str, ...], str]:
    """The lines of a checkpoint for each pod, container and resource, and for each registered resource, in order."""
    said: dict[tuple[str, ...], str] = {}
    for entry in data.pod_device_entries or ():
        ordered = {node: sorted(ids or ()) for node, ids in (entry.device_ids or {}).items()}
        texts = ["devices " + (devices_text(ordered) or NONE), *response_texts(entry.alloc_resp)]
        said["pod", *_key(entry)] = "; ".join(texts)
    for name, ids in (data.registered_devices or {}).items():
        said["registered", name] = _listed(sorted(ids or ())) or NONE
    return said


def _entry_object(entry: PodDevicesEntry) -> Json:
    by_node = entry.device_ids
    return {
        "podUID": entry.pod_uid,
        "containerName": entry.container_name,
        "resourceName": entry.resource_name,
        "deviceIDs": None if by_node is None else {str(node): _list(ids) for node, ids in by_node.items()},
        "allocResp": None if entry.alloc_resp is None else _response_object(entry.alloc_resp),
    }


def _response_object(response: bytes) -> Json:
    """The members of ContainerAllocateResponse, in the spelling of JSON."""
    try:
        edits = decode_edits(response)
    except RpcFailed as error:
        return {"error": error.detail, "hex": response.hex()}
    return {
        "envs": dict(edits.env),
        "mounts": [
            {"containerPath": each.container_path, "hostPath": each.host_path, "readOnly": each.read_only}
            for each in edits.mounts
        ],
        "devices": [
            {"containerPath": each.container_path, "hostPath": each.host_path, "permissions": each.permissions}
            for each in edits.device_nodes
        ],
        "annotations": dict(edits.annotations),
        "cdiDevices": [{"name": name} for name in edits.cdi_devices],
    }


def _list(ids: Sequence[str] | None) -> list[str] | None:
    return None if ids is None else list(ids)
