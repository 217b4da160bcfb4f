"""The selection of units by a config, and its renewal by what has changed."""

from __future__ import annotations

from collections.abc import Iterable

from plugbay.model.ids import ResourceName
from plugbay.plugins.generic.config.rules import GenericConfig
from plugbay.plugins.generic.machine.values import SysPath
from plugbay.plugins.generic.selecting.claims import Claims
from plugbay.plugins.generic.selecting.entries import EntryLook
from plugbay.plugins.generic.selecting.groups import RuleSurroundings, group_looks
from plugbay.plugins.generic.selecting.index import PropertyIndex
from plugbay.plugins.generic.selecting.memory import RuleMemory
from plugbay.plugins.generic.selecting.nodes import companions_of
from plugbay.plugins.generic.selecting.ports import Hardware, HostChanges
from plugbay.plugins.generic.selecting.sight import HostSight
from plugbay.plugins.generic.selecting.texts import several
from plugbay.plugins.generic.selecting.tree import FileTree
from plugbay.plugins.generic.selecting.units import RuleTrouble, SelectedUnits, Unit


def select(config: GenericConfig, hardware: Hardware, files: FileTree) -> SelectedUnits:
    """The units of all entries, as the machine is now."""
    return RuleSelection(config, hardware, files).look()


class RuleSelection:
    """The units of a config, which looks again only at what may have changed. For one thread at a time.

    Args:
        memory: of looks before these, also by another config.
    """

    def __init__(
        self, config: GenericConfig, hardware: Hardware, files: FileTree, memory: RuleMemory | None = None
    ) -> None:
        self._config = config
        self.hardware = hardware
        self.memory = RuleMemory() if memory is None else memory
        self._files = files
        self._begin()

    @property
    def directories(self) -> frozenset[str]:
        """The directories in which names may come and go that a rule would see; those not there yet as well."""
        return self.sight.directories.union(*(group.directories for entry in self.entries for group in entry.groups))

    def look(self) -> SelectedUnits:
        """All units, with nothing remembered of what earlier looks found."""
        self._begin()
        return self._after(frozenset(), frozenset())

    def after(self, changes: HostChanges) -> SelectedUnits:
        """All units after these changes; resources that did not change have the same tuple as before."""
        paths = set(self.sight.mend(changes.paths, changes.directories))
        for path in changes.devices:
            device = self.hardware.device(path)
            if device is not None and device.node:
                paths.add(device.node)
        devices = changes.devices | companions_of(changes.devices, self.hardware)
        return self._after(frozenset(paths), self.index.mend(devices))

    def _begin(self) -> None:
        self.sight = HostSight(self._files)
        self.index = PropertyIndex(self.hardware)
        around = RuleSurroundings(self.sight, self.index, self.hardware, self.memory, self._config.has_compat_ids)
        self.entries = [EntryLook(entry, group_looks(entry, around), self.hardware) for entry in self._config.entries]
        self.claims = Claims(self._config.entries)
        self._units: dict[ResourceName, tuple[Unit, ...]] = {}
        self._owners: dict[ResourceName, list[int]] = {}
        self._troubles: dict[int, list[RuleTrouble]] = {}

    def _after(self, paths: frozenset[str], devices: frozenset[SysPath]) -> SelectedUnits:
        seen: set[int] = set()
        concerned: set[int] = set()
        resources: set[ResourceName] = set()
        for index, entry in enumerate(self.entries):
            before = set(entry.resources)
            if not entry.look(paths, devices):
                continue
            seen.add(index)
            concerned |= self.claims.renew(index, entry.claims)
            for name in before - entry.resources.keys():
                self._owners[name].remove(index)
            for name in entry.resources.keys() - before:
                owners = self._owners.setdefault(name, [])
                owners.append(index)
                owners.sort()
                concerned.update(owners)
            resources |= before | entry.resources.keys()
        for index in seen | concerned:
            resources |= self.entries[index].resources.keys()
            self._troubles[index] = list(self._troubles_of(index))
        for name in resources:
            self._show(name)
        return SelectedUnits(
            {name: self._units[name] for name in sorted(self._units)},
            tuple(trouble for index in sorted(self._troubles) for trouble in self._troubles[index]),
        )

    def _show(self, name: ResourceName) -> None:
        owners = self._owners.get(name)
        if not owners:
            self._units.pop(name, None)
            return
        owner = owners[0]
        shown = self.entries[owner].resources[name]
        given = [each.unit for each in shown.values() if self.claims.rival(owner, each.draft.claims) is None]
        units = tuple(sorted(self.memory.named(name, given), key=lambda unit: unit.id))
        if self._units.get(name) != units:
            self._units[name] = units

    def _troubles_of(self, index: int) -> Iterable[RuleTrouble]:
        entry = self.entries[index]
        called = entry.names.fixed or entry.entry.title
        for text in entry.troubles:
            yield RuleTrouble(called, text)
        for name in sorted(entry.resources):
            owner = self._owners[name][0]
            if owner != index:
                yield RuleTrouble(
                    name,
                    f"{self.place(index)} makes units of {name}, which belongs to {self.place(owner)}, so they are"
                    " left out; write the rules as groups of one entry.",
                )
        for rival, paths in self.claims.lost(index):
            yield RuleTrouble(
                called,
                f"{several(paths)}: {self.place(rival)} gives this already, so {self.place(index)} does not; write"
                " shared: true in both entries if both may give it at the same time.",
            )

    def place(self, index: int) -> str:
        """The words for an entry in a sentence."""
        entry = self._config.entries[index]
        line = f", line {entry.spot.line}" if entry.spot.line else f", number {index + 1}"
        if len({each.source for each in self._config.entries}) == 1:
            return f"the entry {entry.title!r}{line}"
        return f"the entry {entry.title!r} of {entry.source}{line if entry.spot.line > 1 else ''}"  # a flag is a line
