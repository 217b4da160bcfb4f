"""Devices for the units that a look selected, made anew only where something has changed. Blocks."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from plugbay.errors import InvalidDevice
from plugbay.model.devices import Device
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.plugins.generic.answers.devices import LinksOf, device_of
from plugbay.plugins.generic.config.rules import GenericConfig
from plugbay.plugins.generic.selecting.tree import FileKind, FileTree, directories_inside, nodes_inside
from plugbay.plugins.generic.selecting.units import RuleTrouble, SelectedUnits, Unit
from plugbay.plugins.generic.serving.offers import MadeDevices

_WITH_LINKS: Final = ("disk", "input", "serial", "snd", "v4l")
"""Directories of ``/dev`` in which udev makes links, perhaps only when the first such device comes."""


class DeviceMaker:
    """Makes devices, look after look.

    Args:
        links_of: the links to a node of the host, as they are now.
        files: those of the host.
    """

    def __init__(self, links_of: LinksOf, files: FileTree) -> None:
        self._links_of = links_of
        self._files = files
        self._units: dict[ResourceName, tuple[Unit, ...]] = {}
        self._made: dict[ResourceName, dict[DeviceId, Device]] = {}
        self._troubles: dict[ResourceName, tuple[RuleTrouble, ...]] = {}
        self._made_at_each_look: set[ResourceName] = set()
        self._walked: dict[ResourceName, set[str]] = {}

    @property
    def directories(self) -> frozenset[str]:
        """The host's directories whose nodes are named one by one, as some may come or go."""
        return frozenset().union(*self._walked.values())

    def make(self, selected: SelectedUnits) -> MadeDevices:
        """The devices of a look; a resource with the same units as before has the same devices."""
        for gone in self._units.keys() - selected.units.keys():
            del self._units[gone], self._made[gone], self._troubles[gone], self._walked[gone]
            self._made_at_each_look.discard(gone)
        for name, units in selected.units.items():
            if self._units.get(name) is not units or name in self._made_at_each_look:
                self._make_anew(name, units)
        troubles = tuple(trouble for name in sorted(self._troubles) for trouble in self._troubles[name])
        return MadeDevices(dict(self._made), troubles)

    def _make_anew(self, name: ResourceName, units: tuple[Unit, ...]) -> None:
        known, made = self._made.get(name, {}), dict[DeviceId, Device]()
        before = {unit.id: unit for unit in self._units.get(name, ())}
        troubles: dict[object, RuleTrouble] = {}
        is_kept = name not in self._made_at_each_look
        walked = self._walked[name] = set()

        def nodes_in(path: str) -> Sequence[str] | None:
            if self._files.kind(path) is not FileKind.DIRECTORY:
                return None
            walked.update(directories_inside(self._files, path))
            return [*nodes_inside(self._files, path)]

        for unit in units:
            if is_kept and before.get(unit.id) is unit and unit.id in known:
                made[unit.id] = known[unit.id]
                continue
            try:
                made[unit.id] = device_of(unit, links_of=self._links_of, nodes_in=nodes_in)
            except InvalidDevice as error:
                match = unit.nodes, unit.mounts, unit.interfaces, unit.physical, error.problem
                troubles.setdefault(match, RuleTrouble(name, f"not offered: {error}"))  # once for all copies
        self._units[name], self._troubles[name] = units, tuple(troubles.values())
        self._made_at_each_look.discard(name)
        if walked or any(unit.group.gifts.keeps_links for unit in units):
            self._made_at_each_look.add(name)
        if made != known or not made:
            self._made[name] = made


def link_directories(config: GenericConfig, dev: Path) -> Iterator[Path]:
    """The directories of links that matter, if containers get some under the names of links."""
    if any(group.gifts.keeps_links for entry in config.entries for group in entry.groups):
        for kind in _WITH_LINKS:
            yield from (dev / kind / "by-id", dev / kind / "by-path")
        yield from (Path(each) for each in glob.iglob(f"{glob.escape(str(dev))}/*/by-*"))
