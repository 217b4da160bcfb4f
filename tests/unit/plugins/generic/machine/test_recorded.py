"""Recorded machines: what each device with a node or a network interface is, and where it belongs."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugbay.plugins.generic.machine.machine import SysMachine
from tests.sysfs_trees import RECORDED, TREES, appear, lay_out, recorded, vanish

KNOWN: Final = RECORDED.parent / "plugins/generic/machine"


def described(machine: SysMachine) -> str:
    """A paragraph for each device that a pod could get."""
    lines = []
    for device in machine.all():
        if not device.node and device.subsystem != "net":
            continue
        facts = dict(machine.facts(device))
        facts |= {"physical": machine.physical(device).name, "pcieRoot": machine.pcie_root(device)}
        facts |= {"iommuGroup": machine.iommu_group(device), "links": " ".join(machine.node_links(device.node))}
        lines += [device.node or device.name, *(f"    {name}: {facts[name]}" for name in sorted(facts) if facts[name])]
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("tree", TREES)
def test_devices_are_what_they_are(tree: str, tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    golden(f"{tree}.txt", described(lay_out(tree, tmp_path)))


@pytest.mark.parametrize("tree", TREES)
def test_every_device_has_an_identity_of_its_own(tree: str, tmp_path: Path) -> None:
    machine = lay_out(tree, tmp_path)
    identities = [machine.identity(device) for device in machine.all()]
    assert len(set(identities)) == len(identities) > 5


@pytest.mark.parametrize("tree", TREES)
def test_uevents_in_any_order_lead_to_the_same_machine(tree: str, tmp_path: Path) -> None:
    """A driver binds and devices below come at any time; the kernel tells those above first."""
    devices = recorded(tree)
    expected = described(lay_out(tree, tmp_path / "whole"))
    rng = random.Random(tree)
    root = tmp_path / "growing"
    (root / "dev").mkdir(parents=True)
    machine = SysMachine(root / "sys", root / "dev")
    assert [*machine.all()] == []
    missing = sorted(devices, key=lambda device: rng.random())
    while missing:
        came = next(each for each in missing if not any(each.path.startswith(f"{up.path}/") for up in missing))
        missing.remove(came)
        assert came.path in machine.apply(appear(came, root))
    assert described(machine) == expected
    for device in sorted(devices, key=lambda each: each.path, reverse=True):
        assert device.path in machine.apply(vanish(device, root))
    assert [*machine.all()] == []


@pytest.mark.parametrize("tree", TREES)
def test_a_comparison_finds_what_uevents_tell(tree: str, tmp_path: Path) -> None:
    machine = lay_out(tree, tmp_path)
    whole = described(machine)
    devices = recorded(tree)
    leaf = next(each for each in reversed(devices) if each.node)
    vanish(leaf, tmp_path)
    assert leaf.path in machine.refresh()
    assert described(machine) != whole
    appear(leaf, tmp_path)
    assert leaf.path in machine.refresh()
    assert described(machine) == whole
    assert machine.refresh() == frozenset()


@settings(max_examples=12)
@given(st.data())
def test_the_order_of_directories_is_irrelevant(data: st.DataObject) -> None:
    """File systems list names in the order in which they came, or in that of their hashes."""
    tree = data.draw(st.sampled_from(["vfio", "two-gpus", "board"]))
    devices = data.draw(st.permutations(recorded(tree)))
    with TemporaryDirectory() as directory:
        (root := Path(directory)).joinpath("dev").mkdir()
        for device in devices:
            appear(device, root)
        assert described(SysMachine(root / "sys", root / "dev")) == (KNOWN / f"{tree}.txt").read_text()
