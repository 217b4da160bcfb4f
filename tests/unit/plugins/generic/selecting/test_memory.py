"""Devices that pods had when the process began: they keep the IDs by which the pods have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugbay.model.ids import DeviceId, ResourceName
from plugbay.plugins.generic.config.rules import RuleGroup, Usb, UsbRule
from plugbay.plugins.generic.selecting.ids import id_of_paths
from plugbay.plugins.generic.selecting.memory import RuleMemory
from plugbay.plugins.generic.selecting.selection import RuleSelection
from plugbay.plugins.generic.selecting.units import Unit
from tests.unit.plugins.generic.selecting.machines import Bench, node, units_of, where
from tests.unit.plugins.generic.selecting.trees import NoHardware, TreeOfData, config, entry, host_paths, path_group

STICKS = entry(
    "things", RuleGroup(Usb((UsbRule(0x10C4, None),), nodes=(node(where(subsystem="tty")),), has_raw_node=False))
)
THINGS = ResourceName("example.com/things")
TREE = TreeOfData(["/dev/t0", "/dev/t1", "/dev/t2"])


def held(**paths: list[str]) -> RuleMemory:
    """The memory of a process that began when pods had devices with these paths; an underscore stands for a colon."""
    return RuleMemory({THINGS: {DeviceId(id.replace("_", ":")): each for id, each in paths.items()}})


def of_paths(memory: RuleMemory, *, count: int = 1, tree: TreeOfData = TREE) -> dict[str, str]:
    """The only path of each unit, by its ID."""
    rules = config(entry("things", path_group("/dev/t*", count=count)))
    [units] = RuleSelection(rules, NoHardware(), tree, memory).look().units.values()
    assert [unit.id for unit in units] == sorted(unit.id for unit in units)
    return {unit.id: host_paths(unit)[0] for unit in units}


def own(path: str, copy: int = 0) -> str:
    return id_of_paths(copy, [path])


def ttys(units: tuple[Unit, ...]) -> dict[str, str]:
    return {unit.id: unit.nodes[0].host_path for unit in units}


def test_a_stick_keeps_the_id_that_a_pod_has_when_one_with_its_serial_number_came(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.stick(1, "ttyUSB0", serial="A50285BI")
    before = ttys(units_of(bench.look(STICKS)))
    assert before == {"usb:10c4:ea60:A50285BI": "/dev/ttyUSB0"}
    clone = bench.stick(2, "ttyUSB1", serial="A50285BI")
    [of_clone] = {id for id, path in ttys(units_of(bench.look(STICKS))).items() if path == "/dev/ttyUSB1"}
    memory = RuleMemory({THINGS: {DeviceId(id): [path] for id, path in before.items()}})
    selection = bench.selection(STICKS, memory=memory)
    assert ttys(units_of(selection.look())) == {**before, of_clone: "/dev/ttyUSB1"}
    parts = [*clone.walk()][::-1]
    clone.remove()
    assert ttys(units_of(bench.after(selection, "remove", *parts))) == before


def test_a_stick_keeps_the_id_of_its_port_when_the_one_with_its_serial_number_went(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.stick(1, "ttyUSB0", serial="A50285BI")
    clone = bench.stick(2, "ttyUSB1", serial="A50285BI")
    before = ttys(units_of(bench.look(STICKS)))
    clone.remove()
    memory = RuleMemory({THINGS: {DeviceId(id): [path] for id, path in before.items()}})
    kept = ttys(units_of(bench.look(STICKS, memory=memory)))
    assert kept == {id: path for id, path in before.items() if path == "/dev/ttyUSB0"}


def test_ids_that_pods_do_not_have_are_those_of_the_rules() -> None:
    assert of_paths(held()) == {own(path): path for path in TREE.files}
    assert of_paths(held(elsewhere=["/dev/other"], without=[])) == of_paths(held())
    assert of_paths(held(both=["/dev/t0", "/dev/gone"])) == {
        "both": "/dev/t0",
        own("/dev/t1"): "/dev/t1",
        own("/dev/t2"): "/dev/t2",
    }


def test_devices_of_one_container_have_one_unit_each() -> None:
    paths = ["/dev/t0", "/dev/t1"]
    memory = RuleMemory({THINGS: {DeviceId("other"): paths, DeviceId(own("/dev/t0")): paths}})
    assert of_paths(memory) == {own("/dev/t0"): "/dev/t0", "other": "/dev/t1", own("/dev/t2"): "/dev/t2"}
    assert of_paths(held(a=paths, b=paths)) == {"a": "/dev/t0", "b": "/dev/t1", own("/dev/t2"): "/dev/t2"}


def test_a_pod_has_one_share_of_a_device_that_others_share() -> None:
    tree = TreeOfData(["/dev/t0"])
    memory = RuleMemory({THINGS: {DeviceId("other"): ["/dev/t0"], DeviceId(own("/dev/t0")): ["/dev/t0"]}})
    assert of_paths(memory, count=3, tree=tree).keys() == {own("/dev/t0"), "other", own("/dev/t0", 2)}


def test_an_id_stays_with_its_unit_and_is_given_to_no_other() -> None:
    memory = held(mine=["/dev/t0"])
    first, second = TreeOfData(["/dev/t0", "/dev/t1"]), TreeOfData(["/dev/t1"])
    assert of_paths(memory, tree=first) == {"mine": "/dev/t0", own("/dev/t1"): "/dev/t1"}
    memory.forget_unless({})
    assert of_paths(memory, tree=first) == {"mine": "/dev/t0", own("/dev/t1"): "/dev/t1"}
    assert of_paths(memory, tree=second) == {own("/dev/t1"): "/dev/t1"}
    assert of_paths(memory, tree=first) == {"mine": "/dev/t0", own("/dev/t1"): "/dev/t1"}


def test_an_id_is_that_of_the_unit_whose_own_it_is() -> None:
    memory = RuleMemory({THINGS: {DeviceId(own("/dev/t1")): ["/dev/t0"]}})
    assert of_paths(memory, tree=TreeOfData(["/dev/t0"])) == {own("/dev/t1"): "/dev/t0"}
    assert of_paths(memory) == {own(path): path for path in TREE.files}


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_a_device_that_comes_later_gets_the_id_while_a_pod_has_it(is_forgotten: bool) -> None:
    memory = held(mine=["/dev/t0"])
    assert of_paths(memory, tree=TreeOfData(["/dev/t1"])) == {own("/dev/t1"): "/dev/t1"}
    memory.forget_unless({} if is_forgotten else {THINGS: [DeviceId("mine")]})
    assert ("mine" in of_paths(memory)) is not is_forgotten
