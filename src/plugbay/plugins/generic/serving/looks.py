"""Looks at the machine by rules: at everything first, then at what events may have changed."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path

from plugbay.kernel.filesystems import silent_filesystem
from plugbay.model.health import Health, unhealthy
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.plugins.generic.config.rules import DevNames, GenericConfig, Interfaces, Paths, RuleGroup
from plugbay.plugins.generic.machine.machine import SysMachine
from plugbay.plugins.generic.selecting.memory import HeldPaths, RuleMemory
from plugbay.plugins.generic.selecting.ports import HostChanges
from plugbay.plugins.generic.selecting.selection import RuleSelection
from plugbay.plugins.generic.selecting.tree import HostTree
from plugbay.plugins.generic.selecting.units import SelectedUnits, Unit
from plugbay.plugins.generic.serving.drivers import has_driver
from plugbay.plugins.generic.serving.events import MachineNews
from plugbay.plugins.generic.serving.making import DeviceMaker, link_directories
from plugbay.plugins.generic.serving.offers import MadeDevices
from plugbay.plugins.generic.serving.vanishing import Held
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class RuleSight:
    """The outcome of a look.

    Attributes:
        made: the devices of what is selected.
        ailing: why units are not healthy, by resource and ID.
        directories: those in which names matter.
        has_silent_directories: whether the kernel does not tell of changes in some of these.
        has_machine_rules: whether uevents matter.
        has_foreign_interfaces: whether there are rules about network interfaces, and those of the machine are not those
            of this process: the kernel tells of interfaces only in their own network namespace.
    """

    selected: SelectedUnits
    made: MadeDevices = MadeDevices({})
    ailing: Mapping[tuple[ResourceName, DeviceId], Health] = field(default_factory=dict)
    directories: frozenset[Path] = frozenset()
    has_silent_directories: bool = False
    has_machine_rules: bool = False
    has_foreign_interfaces: bool = False

    def is_polled(self, *, is_blind: bool) -> bool:
        """Whether looks come at intervals, because the kernel does not tell of all changes.

        Args:
            is_blind: whether uevents do not reach this process.
        """
        is_untold = self.has_silent_directories or self.has_foreign_interfaces
        return is_untold or (is_blind and self.has_machine_rules)


class RuleLooks:
    """Looks by the same or another config, one after the other. They block, and are for one thread at a time.

    Args:
        root: of the machine's files, ``dev`` and ``sys`` among them.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._machine = SysMachine(root / "sys", root / "dev", root / "run/udev")
        self._udev = root / "run/udev/data"
        self._config: GenericConfig | None = None
        self._selection: RuleSelection | None = None
        self._files = HostTree(root)
        self._maker = DeviceMaker(self._machine.node_links, self._files)
        self._silent: dict[Path, bool] = {}
        self._memory = RuleMemory()

    def begin(self, held: HeldPaths) -> None:
        """Begin with the devices that pods hold, which keep their IDs."""
        self._memory, self._selection = RuleMemory(held), None

    def forget_unless(self, held: Held) -> None:
        """Forget the devices of the beginning that no pod holds any more; while no look is made."""
        self._memory.forget_unless(held)

    def look(self, config: GenericConfig, news: MachineNews | None) -> RuleSight:
        """Look; ``news`` are the events since the look before, None if anything may have happened.

        Raises:
            OSError: the machine's files cannot be read.
        """
        selected = self._select(config, news)
        self._machine.forget_links()  # udev makes them some time after the uevent
        made = self._maker.make(selected)
        of_host = self._selection_of(config).directories | self._maker.directories
        directories = {self._root / each.lstrip("/") for each in of_host}
        directories.update(link_directories(config, self._root / "dev"))
        if self._machine.asks_udev():
            directories.add(self._udev)
        groups = [group for entry in config.entries for group in entry.groups]
        return RuleSight(
            selected,
            made,
            dict(self._without_driver(selected)),
            frozenset(directories),
            any(map(self._is_silent, directories)),
            any(map(_asks_machine, groups)),
            any(isinstance(group.what, Interfaces) for group in groups) and _is_other_network(self._root),
        )

    def _select(self, config: GenericConfig, news: MachineNews | None) -> SelectedUnits:
        if self._config is not config or news is None or news.is_partial:
            self._machine.refresh()
            return self._selection_of(config).look()
        devices = frozenset(path for event in news.uevents for path in self._machine.apply(event))
        if self._udev in news.directories:
            devices |= self._machine.refresh_udev()
        at = len(str(self._root).rstrip("/"))
        directories = frozenset(str(each)[at:] or "/" for each in news.directories - {self._udev})
        return self._selection_of(config).after(HostChanges(directories=directories, devices=devices))

    def _selection_of(self, config: GenericConfig) -> RuleSelection:
        if self._selection is None or self._config is not config:
            self._config, self._selection = config, RuleSelection(config, self._machine, self._files, self._memory)
        return self._selection

    def _is_silent(self, directory: Path) -> bool:
        if directory not in self._silent:
            self._silent[directory] = bool(silent_filesystem(directory))
        return self._silent[directory]

    def _without_driver(self, selected: SelectedUnits) -> Iterator[tuple[tuple[ResourceName, DeviceId], Health]]:
        for name, units in selected.units.items():
            for unit in units:
                if unit.group.health.needs_driver and (lacking := self._lacking(unit)):
                    yield (name, unit.id), unhealthy("DriverUnbound", f"no driver is bound to {lacking}")

    def _lacking(self, unit: Unit) -> str:
        """The name of a device of the unit without a driver; empty if all have theirs."""
        devices = (self._machine.device(path) for path in unit.sys_paths)
        return next((each.name for each in devices if each is not None and not has_driver(self._machine, each)), "")


def _asks_machine(group: RuleGroup) -> bool:
    """Whether a group depends on more of the machine than the names of its files."""
    return not isinstance(group.what, Paths | DevNames) or group.health.needs_driver


def _is_other_network(root: Path) -> bool:
    """Whether sysfs shows another network namespace than that of this process, as in a pod that has the host's."""
    try:
        with os.scandir(root / "sys/class/net") as found:
            shown = {each.name for each in found if each.is_dir()}  # beside interfaces there is a file of bonds
    except OSError:
        return False
    return shown != {name for _, name in socket.if_nameindex()}
