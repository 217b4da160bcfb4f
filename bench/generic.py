"""What it costs to find the devices of the generic plugin's rules: at the start, and when one node comes.

The machine is a large one in a directory: 10,000 device nodes and 200 rules, a half of them about paths and the other
half about properties of devices. The time is CPU time of one process, with the files in the page cache.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Final

from bench.figures import Figure, Pace
from bench.generic_serving import served
from plugbay.kernel.uevent import Uevent
from plugbay.plugins.generic.config.rules import (
    AllOf,
    Entry,
    GenericConfig,
    Match,
    PathRule,
    Paths,
    RuleGroup,
    Where,
)
from plugbay.plugins.generic.machine.machine import SysMachine
from plugbay.plugins.generic.selecting.ports import HostChanges
from plugbay.plugins.generic.selecting.selection import RuleSelection
from plugbay.plugins.generic.selecting.tree import HostTree
from plugbay.plugins.generic.selecting.units import SelectedUnits
from plugbay.testing.fakesysfs import FakeSysfs, FakeSysfsDevice

RULES: Final = 200
NODES: Final = {Pace.FULL: 10_000, Pace.QUICK: 1_000}
EVENTS: Final = {Pace.FULL: 50, Pace.QUICK: 5}
FIRST_SCAN_MS: Final = 1200.0
EVENT_MS: Final = 15.0


async def measure(pace: Pace) -> AsyncIterator[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        machine = LargeMachine(Path(directory), NODES[pace])
        for figure in scans(machine, EVENTS[pace]):
            yield figure
    async for figure in served(pace):
        yield figure


class LargeMachine:
    """A machine with many cards, each with its share of ports, and a config with one rule for each card."""

    def __init__(self, root: Path, nodes: int) -> None:
        self.root = root
        self.sysfs = FakeSysfs(root, real_nodes=os.geteuid() == 0)
        self.ports = nodes // RULES
        self.cards = [self._card(number) for number in range(RULES)]

    @property
    def config(self) -> GenericConfig:
        any_file = os.geteuid() != 0
        entries = []
        for number in range(RULES):
            if number % 2:
                what: Paths | Match = Paths((PathRule(f"/dev/tty{number:03}p*", takes_any_file=any_file),))
            else:
                address = Where("address", (address_of(number),))
                what = Match(AllOf((Where("subsystem", ("tty",)), address)), is_each=True)
            entries.append(Entry(f"card-{number}", "example.com", (RuleGroup(what),)))
        return GenericConfig("bench", tuple(entries))

    def add_port(self, card: int, port: int) -> FakeSysfsDevice:
        number = (204 + card, port)
        return self.cards[card].class_device("tty", f"tty{card:03}p{port}", number=number)

    def _card(self, number: int) -> FakeSysfsDevice:
        card = self.sysfs.pci(address_of(number), vendor=0x10B5, device=0x9050, pci_class=0x070000, driver="serial")
        self.cards = [*getattr(self, "cards", ()), card]
        for port in range(self.ports):
            self.add_port(number, port)
        return card


def address_of(card: int) -> str:
    return f"0000:{card:02x}:00.0"


def scans(machine: LargeMachine, events: int) -> Iterator[Figure]:
    """The first look, then single events, which alternate between a node for a rule of paths and one for properties."""
    files, devices = HostTree(machine.root), SysMachine(machine.sysfs.sys, machine.sysfs.dev)
    selection = RuleSelection(machine.config, devices, files)
    first = cpu_ms(lambda: check(selection.look(), RULES * machine.ports))
    yield Figure("first_scan_ms", first, "ms", FIRST_SCAN_MS)
    again = RuleSelection(machine.config, devices, files)
    yield Figure("whole_look_again_ms", cpu_ms(again.look), "ms", None)
    taken = []
    for number in range(events):
        port = machine.add_port(number % 2, machine.ports + number)
        event = Uevent("add", "/" + str(port.place.relative_to(machine.sysfs.sys)), {})

        def follow(event: Uevent = event) -> None:
            """The plugin is told that names in /dev have changed, and not which."""
            changed = devices.apply(event)
            selection.after(HostChanges(directories=frozenset({"/dev"}), devices=changed))

        taken.append(cpu_ms(follow))
    check(selection.after(HostChanges()), RULES * machine.ports + events)
    yield Figure("event_p50_ms", statistics.median(taken), "ms", EVENT_MS)
    yield Figure("event_max_ms", max(taken), "ms", None)


def check(found: SelectedUnits, count: int) -> None:
    units = sum(map(len, found.units.values()))
    if units != count:
        raise RuntimeError(f"{units} units were found, and there are {count}")


def cpu_ms(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1000
