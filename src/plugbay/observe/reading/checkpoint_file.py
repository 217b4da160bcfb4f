"""Read a kubelet's checkpoint, whatever state it is in."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

from plugbay.errors import CorruptCheckpoint, RpcFailed
from plugbay.kernel.files import read_regular
from plugbay.kubelet.checkpoint import parse
from plugbay.kubelet.checkpoint_data import Checkpoint, PodDevicesEntry, checksum
from plugbay.kubelet.old_checkpoint import parse_old
from plugbay.observe.evidence import CheckpointEntry, CheckpointEvidence
from plugbay.observe.reading.moments import moment_of
from plugbay.observe.view import CheckpointFile
from plugbay.wire.convert import decode_edits


def read_checkpoint(path: Path) -> CheckpointEvidence:
    """The checkpoint at ``path``; none is not a problem, as kubelets begin without.

    A file with a wrong checksum is shown nevertheless, with the problem: it says what the kubelet has known.
    """
    try:
        content, found = read_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        return CheckpointEvidence(file=CheckpointFile(path=str(path)), entries=())
    except PermissionError:
        problem = f"the checkpoint {path} cannot be read: permission denied; run it as root"
        return CheckpointEvidence(file=CheckpointFile(path=str(path), problem=problem))
    except OSError as error:
        problem = f"the checkpoint {path} cannot be read: {(error.strerror or str(error)).lower()}"
        return CheckpointEvidence(file=CheckpointFile(path=str(path), problem=problem))
    checkpoint, problem = _parsed(content, str(path))
    file_view = CheckpointFile(path=str(path), written=written_at(found), problem=problem)
    if checkpoint is None:
        return CheckpointEvidence(file=file_view)
    return CheckpointEvidence(
        file=file_view,
        entries=tuple(map(_entry, checkpoint.data.pod_device_entries or ())),
        registered={name: tuple(ids or ()) for name, ids in (checkpoint.data.registered_devices or {}).items()},
    )


def written_at(found: os.stat_result) -> datetime:
    """The moment at which a checkpoint was written; a newer one has another."""
    return moment_of(found.st_mtime)


def _parsed(content: bytes, path: str) -> tuple[Checkpoint | None, str]:
    """The checkpoint if it can be made out, and what is wrong with it."""
    try:
        checkpoint = parse(content, source=path)
    except CorruptCheckpoint as error:
        try:
            old = parse_old(content, source=path)
        except CorruptCheckpoint:
            return None, str(error)
        return old, f"the checkpoint {path} is of kubelet 1.19 or older, and kubelets since 1.30 do not load it"
    if checkpoint.checksum == checksum(checkpoint.data):
        return checkpoint, ""
    return checkpoint, (
        f"the checkpoint {path} is damaged or was edited: its checksum is {checkpoint.checksum}, and that of its "
        "content another; a kubelet would not load it"
    )


def _entry(entry: PodDevicesEntry) -> CheckpointEntry:
    devices: Mapping[int, tuple[str, ...]] = {node: tuple(ids or ()) for node, ids in (entry.device_ids or {}).items()}
    paths = tuple(_host_paths(entry.alloc_resp or b""))
    return CheckpointEntry(entry.pod_uid, entry.container_name, entry.resource_name, devices, paths)


def _host_paths(response: bytes) -> Iterable[str]:
    try:
        return [node.host_path for node in decode_edits(response).device_nodes] if response else ()
    except RpcFailed:
        return ()
