"""Read the checkpoint, as the kubelet would."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from plugbay.errors import CorruptCheckpoint, RpcFailed
from plugbay.kernel.files import read_regular
from plugbay.kubelet.checkpoint import load
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry
from plugbay.kubelet.old_checkpoint import parse_old
from plugbay.observe.doctor.evidence.host import Gaps, Host
from plugbay.observe.doctor.evidence.values import CheckpointHolding, CheckpointSight, CheckpointState, EvidenceSource

_NAME: Final = ".kubelet_internal_checkpoint"
_YOUNG_S: Final = 60
"""A file of that age may be one that is just being written."""


def read_checkpoint(host: Host, gaps: Gaps) -> CheckpointSight:
    """The file ``kubelet_internal_checkpoint`` of the host's kubelet."""
    path = host.kubelet.checkpoint
    shown = host.shown(path)
    unfinished = _unfinished(path.parent, host)
    try:
        content, found = read_regular(path)
    except FileNotFoundError:
        return CheckpointSight(shown, unfinished=unfinished)
    except OSError as error:
        gaps.note(EvidenceSource.CHECKPOINT, shown, error)
        return CheckpointSight(shown, CheckpointState.UNREAD, unfinished=unfinished)
    mode = stat.S_IMODE(found.st_mode)
    try:
        data = load(content, source=shown)
    except CorruptCheckpoint as error:
        state = CheckpointState.OLD if _is_old(content, shown) else CheckpointState.CORRUPT
        return CheckpointSight(shown, state, error.problem, mode, found.st_mtime, unfinished=unfinished)
    return CheckpointSight(
        shown,
        CheckpointState.VALID,
        "",
        mode,
        found.st_mtime,
        tuple(_entry(each) for each in data.pod_device_entries or ()),
        _registered(data),
        unfinished,
    )


def _is_old(content: bytes, source: str) -> bool:
    try:
        return bool(parse_old(content, source=source).data.pod_device_entries)
    except CorruptCheckpoint:
        return False


def _registered(data: CheckpointData) -> dict[str, tuple[str, ...]]:
    return {name: tuple(ids or ()) for name, ids in (data.registered_devices or {}).items()}


def _entry(entry: PodDevicesEntry) -> CheckpointHolding:
    # Imported here: it brings protobuf, which a node without assignments does without.
    from plugbay.wire.convert import decode_edits

    lists = (entry.device_ids or {}).values()
    devices = tuple(sorted({each for ids in lists for each in ids or ()}))
    try:
        edits = decode_edits(entry.alloc_resp or b"")
    except RpcFailed:
        edits = None
    return CheckpointHolding(entry.pod_uid, entry.container_name, entry.resource_name, devices, edits)


def _unfinished(directory: Path, host: Host) -> tuple[str, ...]:
    """The files of writers that were killed, and not of one that is writing now."""
    try:
        with os.scandir(directory) as entries:
            old = [
                host.shown(directory / each.name)
                for each in entries
                if each.name.startswith(_NAME)
                and each.is_file(follow_symlinks=False)
                and host.now_s - each.stat(follow_symlinks=False).st_mtime > _YOUNG_S
            ]
    except OSError:
        return ()
    return tuple(sorted(old))
