"""The devices of sysfs as they are, read when they are asked for, remembered, and followed by uevents. Blocks.

Times on 10,000 devices are those of ``bench generic``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from plugbay.kernel.uevent import Uevent
from plugbay.plugins.generic.machine.nodes import DeviceNodes
from plugbay.plugins.generic.machine.ordered import DeviceGroups, OrderedDevices
from plugbay.plugins.generic.machine.reading import SysfsReader
from plugbay.plugins.generic.machine.udev import UdevFiles, file_name
from plugbay.plugins.generic.machine.values import SysDevice, SysPath

_NOT_FOR_PODS: Final = frozenset(
    "acpi clockevents clocksource container cpu cpuid event_source memory memory_tiering msr node workqueue".split()
)
"""Subsystems that are parts of the kernel or of its board: thousands of devices on big machines, and none to give."""


class DeviceTree:
    """The devices below ``sys_root``, whose nodes are below ``dev_root``; for one thread at a time.

    A subsystem is read when it is first asked for. What has been read stays until `apply` or `refresh` finds that it
    changed, attributes included: some of them change without a uevent, and only `refresh` sees that.

    Args:
        sys_root: where the host's ``/sys`` is.
        dev_root: where the host's ``/dev`` is. Nodes have their host's names all the same.
        udev_root: where the host's ``/run/udev`` is; None for doing without udev's properties.
    """

    def __init__(self, sys_root: Path, dev_root: Path, udev_root: Path | None = None) -> None:
        self.udev: Final = None if udev_root is None else UdevFiles(os.fspath(udev_root / "data"))
        self.reader: Final = SysfsReader(sys_root)
        self.dev_root: Final = os.fspath(dev_root).rstrip("/")
        self._nodes: Final = DeviceNodes(self.reader, self.dev_root, self.device)
        self._settled: dict[SysPath, tuple[str, bool]] = {}
        self._ordinals: dict[tuple[str, object], dict[object, dict[SysPath, int]]] = {}
        self._begin()

    def forget(self) -> None:
        """Begin anew: what is asked for is read again."""
        if self.udev is not None:
            self.udev.forget()
        self._settled.clear()
        self._ordinals.clear()
        self._begin()

    def _begin(self) -> None:
        self._devices: dict[SysPath, SysDevice] = {}
        self._loaded: dict[str, OrderedDevices] = {}
        self._nodes.forget()
        self._all: OrderedDevices | None = None
        self._plain: set[str] = set()
        self._kinds: dict[str, frozenset[str]] = {}
        self._groups: dict[str, dict[object, DeviceGroups]] = {}
        self._attributes: dict[SysPath, dict[str, str | None]] = {}

    # --- looking ----------------------------------------------------------------------------------------------------

    def device(self, path: SysPath) -> SysDevice | None:
        """The device at ``path``; None if there is none."""
        known = self._devices.get(path)
        if known is None and (subsystem := self.reader.subsystem_of(path)):
            known = self._read(path, subsystem)
        return known

    def known(self, path: SysPath) -> SysDevice | None:
        """The device at ``path`` as it was when it was read; None if it was not."""
        return self._devices.get(path)

    def loaded(self) -> frozenset[str]:
        """The subsystems that have been read."""
        return frozenset(self._loaded)

    def devices_of(self, subsystem: str) -> tuple[SysDevice, ...]:
        """The devices of a subsystem, sorted by their paths."""
        found = self._loaded.get(subsystem)
        if found is None:
            found = self._loaded[subsystem] = OrderedDevices()
            for path in self.reader.paths_of(subsystem):
                device = self._devices.get(path)
                if device is not None:
                    found.put(device)
                else:
                    self._read(path, subsystem)
        return found.in_order()

    def all(self) -> tuple[SysDevice, ...]:
        """Every device that a pod could get, sorted by paths: parts of the board, such as CPUs, are left out."""
        return self._everything().in_order()

    def by_node(self, node: str) -> SysDevice | None:
        """The device whose node is at ``node``, a path of the host such as ``/dev/ttyUSB0``, or a link to one."""
        return self._nodes.find(node)

    def ancestors(self, device: SysDevice) -> Iterator[SysDevice]:
        """The devices above, nearest first."""
        parent = device.parent
        while parent is not None and (above := self.device(parent)) is not None:
            yield above
            parent = above.parent

    def lineage(self, device: SysDevice) -> Iterator[SysDevice]:
        """The device and those above, nearest first."""
        yield device
        yield from self.ancestors(device)

    def below(self, device: SysDevice) -> Iterator[SysDevice]:
        """The devices at every depth below, sorted by paths."""
        return self._everything().below(device.path)

    def attribute(self, device: SysDevice, name: str) -> str | None:
        """An attribute as the kernel shows it, without the newline at its end; for a link, the name of its target.

        Returns:
            None if there is no such attribute or its driver refuses to tell it. At most 4,096 bytes.
        """
        known = self._attributes.setdefault(device.path, {})
        if name not in known:
            known[name] = self.reader.attribute(device.path, name)
        return known[name]

    def grouped(self, subsystem: str, key: Callable[[DeviceTree, SysDevice], object]) -> DeviceGroups:
        """The devices of a subsystem by what ``key`` makes of each.

        Args:
            key: a function of a module, which is what the groups are remembered by.
        """
        groups = self._groups.setdefault(subsystem, {})
        if key not in groups:
            ordinals = self._ordinals.setdefault((subsystem, key), {})
            groups[key] = DeviceGroups(partial(key, self), ordinals)
            for device in self.devices_of(subsystem):
                groups[key].put(device.path, device)
        return groups[key]

    def settled(self, device: SysDevice, text: str, decide: Callable[[], bool]) -> bool:
        """A decision about a device and a text of its own, which stays as it is while the device is there."""
        known = self._settled.get(device.path)
        if known is None or known[0] != text:
            known = self._settled[device.path] = text, decide()
        return known[1]

    def is_bus_device(self, device: SysDevice) -> bool:
        """Whether its subsystem is a bus, not a class."""
        kinds = self._kinds.get(device.subsystem)
        if kinds is None:
            kinds = self._kinds[device.subsystem] = self.reader.kinds(device.subsystem)
        if len(kinds) < 2:
            return "bus" in kinds
        file_name = device.path.rpartition("/")[2]
        return self.reader.target(f"/bus/{device.subsystem}/devices", file_name) == device.path

    def told(self, device: SysDevice, key: str) -> str | None:
        """A property of a device: the kernel's, or udev's; None if neither tells it."""
        if key in device.properties or self.udev is None:
            return device.properties.get(key)
        return self.udev.properties(device).get(key)

    # --- following --------------------------------------------------------------------------------------------------

    def apply(self, event: Uevent) -> frozenset[SysPath]:
        """Look again at the device that a uevent is about.

        An event that comes late does no harm: what sysfs says now counts.

        Returns:
            The paths whose devices came, went, or may be different now; attributes count.
        """
        changed = set(self._renew(SysPath(event.path)))
        if old := event.properties.get("DEVPATH_OLD"):
            gone = self._renew(SysPath(old))
            changed |= gone
            if len(gone) > 1:  # what lay below came along, without events of its own
                for subsystem in [*self._loaded]:
                    self._load_anew(subsystem, changed)
        return frozenset(changed)

    def refresh_udev(self) -> frozenset[SysPath]:
        """Read again what udev says of devices, of which no uevent of the kernel's tells; returns those that differ."""
        differing = frozenset() if self.udev is None else self.udev.differing()
        if not differing:
            return frozenset()
        return frozenset(path for path, device in self._devices.items() if file_name(device) in differing)

    def refresh(self) -> frozenset[SysPath]:
        """Compare everything that has been read with what is there now, for kernels and sandboxes without uevents.

        Returns:
            The paths whose devices came, went or are different, and those with an attribute that is.
        """
        changed = set(self.refresh_udev())
        before, attributes = self._devices, self._attributes
        loaded, has_all, has_nodes = [*self._loaded], self._all is not None, self._nodes.has_all
        self._begin()
        if has_all:
            self._everything()
        for subsystem in loaded:
            self.devices_of(subsystem)
        if has_nodes:
            self._nodes.read_all()
        for path, device in before.items():
            if self.device(path) != device:
                changed.add(path)
            if path not in self._devices:
                self._settled.pop(path, None)
        changed.update(path for path in self._devices if path not in before)
        for path, known in attributes.items():
            now = self._devices.get(path)
            if now is not None and any(self.attribute(now, name) != text for name, text in known.items()):
                changed.add(path)
        return frozenset(changed)

    # --- remembering ------------------------------------------------------------------------------------------------

    def _read(self, path: SysPath, subsystem: str) -> SysDevice | None:
        properties = self.reader.properties(path)
        if properties is None:
            return None
        node = _node_of(properties)
        device = SysDevice(
            path=path,
            subsystem=subsystem,
            devtype=properties.get("DEVTYPE", ""),
            driver=properties.get("DRIVER", ""),
            node=node,
            number=_number_of(properties) if node else None,
            is_block=subsystem == "block",
            properties=properties,
            parent=self._parent_of(path),
        )
        self._devices[path] = device
        self._nodes.put(device)
        self._put(subsystem, path, device)
        return device

    def _parent_of(self, path: str) -> SysPath | None:
        while (path := path.rpartition("/")[0]) not in ("", "/devices"):
            if path in self._plain:
                continue
            if path in self._devices or self.device(SysPath(path)) is not None:
                return SysPath(path)
            self._plain.add(path)
        return None

    def _renew(self, path: SysPath) -> frozenset[SysPath]:
        """Read the device at ``path`` again; those below one that is gone are gone too."""
        self._plain.discard(path)
        before = self._drop(path)
        now = self.device(path)
        if now is not None:
            return frozenset((path,))
        prefix = f"{path}/"
        below = [each for each in self._devices if each.startswith(prefix)]
        for each in (path, *below):
            self._drop(each)
            self._settled.pop(each, None)
        return frozenset(below) | ({path} if before else frozenset())

    def _drop(self, path: SysPath) -> SysDevice | None:
        self._attributes.pop(path, None)
        device = self._devices.pop(path, None)
        if device is not None:
            if self.udev is not None:
                self.udev.drop(device)
            self._nodes.drop(device)
            self._put(device.subsystem, path, None)
        return device

    def _put(self, subsystem: str, path: SysPath, device: SysDevice | None) -> None:
        """Put a device in its place in every order, or take the one away that was at ``path``."""
        for order in (self._loaded.get(subsystem), None if subsystem in _NOT_FOR_PODS else self._all):
            if order is not None and device is not None:
                order.put(device)
            elif order is not None:
                order.discard(path)
        for groups in self._groups.get(subsystem, {}).values():
            groups.put(path, device)

    def _load_anew(self, subsystem: str, changed: set[SysPath]) -> None:
        before = self._loaded.pop(subsystem).paths()
        self._groups.pop(subsystem, None)
        self.devices_of(subsystem)
        changed.update(before ^ self._loaded[subsystem].paths())

    def _everything(self) -> OrderedDevices:
        if self._all is None:
            for subsystem in self.reader.subsystems():
                if subsystem not in _NOT_FOR_PODS:
                    self.devices_of(subsystem)
            self._all = OrderedDevices()
            for path in sorted(self._devices):
                if self._devices[path].subsystem not in _NOT_FOR_PODS:
                    self._all.put(self._devices[path])
        return self._all


def _node_of(properties: Mapping[str, str]) -> str:
    name = properties.get("DEVNAME", "").removeprefix("/dev/")
    return f"/dev/{name}" if name and ".." not in name.split("/") else ""


def _number_of(properties: Mapping[str, str]) -> tuple[int, int] | None:
    major, minor = properties.get("MAJOR", ""), properties.get("MINOR", "")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None
