"""Presets on recorded machines: the devices that pods would get, also after a device came or went."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from plugbay.model.ids import ResourceName
from plugbay.plugins.generic.config.reading import read_config
from plugbay.plugins.generic.config.rules import Entry, GenericConfig
from plugbay.plugins.generic.machine.machine import SysMachine
from plugbay.plugins.generic.presets.catalogue import PRESETS, preset_text
from plugbay.plugins.generic.selecting.ports import HostChanges
from plugbay.plugins.generic.selecting.selection import RuleSelection, select
from plugbay.plugins.generic.selecting.tree import HostTree
from plugbay.plugins.generic.selecting.units import Unit
from tests.sysfs_trees import TREES, appear, lay_out, recorded, vanish

BY_PATH: Final = frozenset(("fuse", "kvm", "tun"))
"""They take device nodes only, and those of a recorded machine are empty files."""


def all_presets() -> GenericConfig:
    entries: list[Entry] = []
    for name in sorted(PRESETS.keys() - BY_PATH):
        entries += read_config(preset_text(name), source=name).entries
    return GenericConfig("presets", tuple(entries))


def described(units: Mapping[ResourceName, tuple[Unit, ...]]) -> str:
    lines = []
    for resource in sorted(units):
        for unit in units[resource]:
            lines.append(f"{resource} {unit.id}")
            lines += [f"    {node.host_path}" for node in unit.nodes]
            lines += [f"    interface {name}" for name in unit.interfaces]
            place = [f"NUMA {number}" for number in sorted(unit.numa_nodes)] + [unit.pcie_root]
            lines += [f"    at {' '.join(filter(None, place))}"] if any(place) else []
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("tree", TREES)
def test_presets_take_what_they_are_for(tree: str, tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    machine = lay_out(tree, tmp_path)
    golden(f"{tree}.txt", described(select(all_presets(), machine, HostTree(tmp_path)).units))


@pytest.mark.parametrize("tree", TREES)
def test_a_device_that_goes_and_comes_leads_to_what_a_first_look_finds(tree: str, tmp_path: Path) -> None:
    machine, config = lay_out(tree, tmp_path), all_presets()
    following = RuleSelection(config, machine, HostTree(tmp_path))
    whole = described(following.look().units)
    devices = recorded(tree)
    above = {each.path for each in devices if any(other.path.startswith(f"{each.path}/") for other in devices)}
    leaves = [each for each in devices if each.path not in above]
    for device in leaves[:: max(1, len(leaves) // 12)]:
        for change in (vanish, appear):
            changed = machine.apply(change(device, tmp_path))
            nodes = frozenset(filter(None, [device.properties.get("DEVNAME")]))
            found = following.after(HostChanges(paths=nodes, devices=changed))
            anew = select(config, SysMachine(tmp_path / "sys", tmp_path / "dev"), HostTree(tmp_path))
            assert described(found.units) == described(anew.units), device.path
    assert described(following.look().units) == whole
