"""A tree of files and a machine that are data, so that thousands of them can be looked at."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping

from plugbay.plugins.generic.config.rules import Entry, GenericConfig, PathRule, Paths, RuleGroup
from plugbay.plugins.generic.machine.values import SysDevice, SysPath
from plugbay.plugins.generic.selecting.selection import select
from plugbay.plugins.generic.selecting.tree import FileKind
from plugbay.plugins.generic.selecting.units import SelectedUnits, Unit


class TreeOfData:
    """Files: a path is a kind, or a text for a link to another path. Directories come by themselves.

    Names are listed in the order in which the paths were given.
    """

    def __init__(self, files: Mapping[str, FileKind | str] | Iterable[str] = ()) -> None:
        self.files: dict[str, FileKind | str] = (
            dict(files) if isinstance(files, Mapping) else dict.fromkeys(files, FileKind.CHARACTER)
        )

    def names(self, directory: str) -> Iterable[str]:
        above = self._real(directory).rstrip("/") + "/"
        below = (path[len(above) :] for path in self.files if path.startswith(above))
        return list(dict.fromkeys(name.partition("/")[0] for name in below))

    def kind(self, path: str) -> FileKind:
        real = self._real(path)
        known = self.files.get(real)
        if isinstance(known, FileKind):
            return known
        if real == "/" or any(each.startswith(real + "/") for each in self.files):
            return FileKind.DIRECTORY
        return FileKind.DANGLING if self.is_link(path) else FileKind.MISSING

    def is_link(self, path: str) -> bool:
        return isinstance(self.files.get(path), str)

    def target(self, path: str) -> str:
        return self._real(path)

    def _real(self, path: str) -> str:
        for _ in range(5):
            known = self.files.get(path)
            if not isinstance(known, str):
                break
            path = posixpath.normpath(posixpath.join(posixpath.dirname(path), known))
        return path


class NoHardware:
    """A machine without devices in sysfs."""

    def device(self, path: SysPath) -> SysDevice | None:
        return None

    def by_node(self, node: str) -> SysDevice | None:
        return None

    def devices_of(self, subsystem: str) -> Iterable[SysDevice]:
        return ()

    def all(self) -> Iterable[SysDevice]:
        return ()

    def below(self, device: SysDevice) -> Iterable[SysDevice]:
        return ()

    def attribute(self, device: SysDevice, name: str) -> str | None:
        return None

    def property_of(self, device: SysDevice, name: str) -> str | None:
        return None

    def physical(self, device: SysDevice) -> SysDevice:
        return device

    def identity(self, device: SysDevice) -> str:
        return device.path

    def numa_nodes(self, device: SysDevice) -> frozenset[int]:
        return frozenset()

    def pcie_root(self, device: SysDevice) -> str:
        return ""


def path_group(*rules: PathRule | str, count: int = 1) -> RuleGroup:
    """A group of paths."""
    return RuleGroup(Paths(tuple(PathRule(rule) if isinstance(rule, str) else rule for rule in rules)), count=count)


def entry(name: str, *groups: RuleGroup, is_shared: bool = False) -> Entry:
    return Entry(name, "example.com", groups, is_shared=is_shared)


def config(*entries: Entry) -> GenericConfig:
    return GenericConfig("rules.yaml", entries)


def looked(tree: TreeOfData, *entries: Entry) -> SelectedUnits:
    """One look by these entries, on a machine without devices in sysfs."""
    return select(config(*entries), NoHardware(), tree)


def units(tree: TreeOfData, *groups: RuleGroup) -> tuple[Unit, ...]:
    """The units of one entry with these groups, in the order of their paths and copies."""
    [found] = looked(tree, entry("things", *groups)).units.values()
    return tuple(sorted(found, key=lambda unit: ([node.host_path for node in unit.nodes], unit.copy)))


def hosts(tree: TreeOfData, *groups: RuleGroup) -> list[tuple[str, ...]]:
    """The host paths of each unit."""
    return [host_paths(unit) for unit in units(tree, *groups)]


def host_paths(unit: Unit) -> tuple[str, ...]:
    return (*(node.host_path for node in unit.nodes), *(mount.host_path for mount in unit.mounts))
