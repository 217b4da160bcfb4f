"""The machine as rules look at it, and what they are told to have changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from plugbay.plugins.generic.machine.values import SysDevice, SysPath
from plugbay.values import dataclass


class Hardware(Protocol):
    """The devices of a kernel; `plugbay.plugins.generic.machine` has the true one."""

    def device(self, path: SysPath) -> SysDevice | None: ...

    def by_node(self, node: str) -> SysDevice | None:
        """The device with this node."""

    def devices_of(self, subsystem: str) -> Iterable[SysDevice]: ...

    def all(self) -> Iterable[SysDevice]: ...

    def below(self, device: SysDevice) -> Iterable[SysDevice]:
        """The devices at every depth below."""

    def attribute(self, device: SysDevice, name: str) -> str | None:
        """A file of the device's directory, without the newline at its end."""

    def property_of(self, device: SysDevice, name: str) -> str | None:
        """A property by its name in rules; None if the device has none, or an empty one."""

    def physical(self, device: SysDevice) -> SysDevice:
        """The piece of hardware that a device belongs to; itself for one without hardware."""

    def identity(self, device: SysDevice) -> str:
        """A text that stays the same over replugging and reboots, and that no other device has."""

    def numa_nodes(self, device: SysDevice) -> frozenset[int]: ...

    def pcie_root(self, device: SysDevice) -> str: ...


@dataclass(frozen=True, slots=True)
class HostChanges:
    """The things that may be different since the last look.

    Attributes:
        paths: files of the host that came, went or changed.
        directories: those in which names came or went; cheaper for who tells, dearer for who looks.
        devices: those that came, went or changed.
    """

    paths: frozenset[str] = frozenset()
    directories: frozenset[str] = frozenset()
    devices: frozenset[SysPath] = frozenset()
