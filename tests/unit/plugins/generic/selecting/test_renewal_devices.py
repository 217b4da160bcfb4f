"""A look after devices came and went finds what a whole look finds."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from plugbay.plugins.generic.config.rules import AllOf, AnyOf, Match, Not, PathRule, RuleGroup, Usb, UsbRule, Where
from plugbay.plugins.generic.selecting.ports import HostChanges
from plugbay.testing.fakesysfs import FakeUsbDevice
from tests.unit.plugins.generic.selecting.machines import Bench, node, where
from tests.unit.plugins.generic.selecting.trees import entry, path_group

TTY = where(subsystem="tty")
RULES = (
    entry("path", path_group(PathRule("/dev/ttyUSB[0-2]", takes_any_file=True)), is_shared=True),
    entry("usb", RuleGroup(Usb((UsbRule(0x10C4, 0xEA60),), nodes=(node(TTY),))), is_shared=True),
    entry("pair", RuleGroup(Usb((UsbRule(0x10C4, 0xEA60), UsbRule(0x10C4, None)))), is_shared=True),
    entry("serial-{serial}", RuleGroup(Match(AllOf((TTY, Where("serial", ("*",)))))), is_shared=True),
    entry(
        "odd", RuleGroup(Match(AnyOf((where(serial="A*"), Not(Where("driver", ("*",))))), (node(TTY),))), is_shared=True
    ),
    entry("every", RuleGroup(Match(where(node="*"), is_each=True))),
)
STEPS = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from(["", "A", "B"]), st.sampled_from([0xEA60, 0xEA70])), max_size=6
)


@settings(max_examples=15)
@given(steps=STEPS)
def test_looks_after_uevents_are_whole_looks(steps: list[tuple[int, str, int]]) -> None:
    """A step plugs a stick into a port, or out of it."""
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory))
        selection = bench.selection(*RULES)
        machine = bench.devices
        selection.look()
        plugged: dict[int, FakeUsbDevice] = {}
        for port, serial, product in steps:
            if port in plugged:
                stick = plugged.pop(port)
                parts = [*stick.walk()][::-1]
                stick.remove()
                action = "remove"
            else:
                stick = plugged[port] = bench.stick(
                    port, f"ttyUSB{port}", serial=serial and f"{serial}{port}", product=product
                )
                parts = [*stick.walk()]
                action = "add"
            bench.after(selection, action, *parts)
            found = selection.after(HostChanges(directories=frozenset({"/dev"})))
            assert found == bench.look(*RULES, memory=selection.memory)
            bench.devices = machine


def test_a_unit_gets_the_node_that_a_driver_makes_later(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    stick = bench.hub.plug(1, vendor=0x10C4, product=0xEA60, serial="A1")
    whole = where(subsystem="usb", devtype="usb_device", serial="A1")
    rules = (
        entry("usb", RuleGroup(Usb((UsbRule(0x10C4, None),), nodes=(node(TTY),))), is_shared=True),
        entry("match", RuleGroup(Match(whole, (node(TTY),))), is_shared=True),
    )
    selection = bench.selection(*rules)
    assert [len(units) for units in selection.look().units.values()] == [0, 0]
    tty = stick.interface(0, driver="cp210x").class_device("tty", "ttyUSB0", number=(188, 0))
    found = bench.after(selection, "add", tty)
    assert [len(units) for units in found.units.values()] == [1, 1]
    tty.remove()
    gone = bench.after(selection, "remove", tty)
    assert [len(units) for units in gone.units.values()] == [0, 0]
