"""The devices that pods hold, as a kubelet's checkpoint and the specs of CDI tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugbay.cdi import directories
from plugbay.cdi.directories import save
from plugbay.cdi.registry import Registry
from plugbay.cdi.spec import Edits, Spec, SpecDevice, SpecDeviceNode
from plugbay.kubelet.checkpoint import encode
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.edits import ContainerEdits
from plugbay.sdk.assigned import assigned_by_checkpoint
from plugbay.wire.convert import edits_to_pb

TTY = "example.com/tty"


def test_specs_are_read_once_for_all_pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = {f"tty{number}": f"/dev/ttyUSB{number}" for number in range(3)}
    paths, cdi, entries = KubeletPaths(tmp_path / "k"), tmp_path / "cdi", []
    for id in nodes:
        answer = edits_to_pb(ContainerEdits(cdi_devices=(f"{TTY}={id}",))).SerializeToString()
        entries.append(PodDevicesEntry(f"pod-{id}", "main", TTY, {-1: [id]}, answer))
    paths.checkpoint.parent.mkdir(parents=True)
    paths.checkpoint.write_bytes(encode(CheckpointData(entries)))
    devices = tuple(SpecDevice(id, edits=Edits(device_nodes=(SpecDeviceNode(path),))) for id, path in nodes.items())
    save(Spec(kind=TTY, version="0.5.0", devices=devices), cdi, "tty")
    scanned = []

    def scan(of: list[Path]) -> Registry:
        scanned.append(of)
        return true_scan(of)

    true_scan = directories.scan
    monkeypatch.setattr(directories, "scan", scan)
    assert assigned_by_checkpoint(paths, cdi) == {TTY: {id: (path,) for id, path in nodes.items()}}
    assert scanned == [[cdi]]
    assert assigned_by_checkpoint(paths) == {TTY: dict.fromkeys(nodes, ())}
