"""The device nodes of a physical device that a rule chooses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from plugbay.model.edits import DeviceNode
from plugbay.plugins.generic.config.rules import NodeRule
from plugbay.plugins.generic.machine.values import SysDevice, SysPath
from plugbay.plugins.generic.selecting.facts import facts_of
from plugbay.plugins.generic.selecting.index import PropertyIndex
from plugbay.plugins.generic.selecting.ports import Hardware
from plugbay.plugins.generic.templates.places import container_path
from plugbay.plugins.generic.templates.template import TemplateProblem
from plugbay.values import dataclass

PERMISSIONS: Final = "rw"
_COMPANIONS: Final[Mapping[str, str]] = {"vfio": "/dev/vfio/vfio", "infiniband_verbs": "/dev/infiniband/rdma_cm"}
"""The node that belongs to all devices of a subsystem, and that a program needs beside theirs."""
_NUMBER: Final = re.compile(r"([0-9]+)")


@dataclass(frozen=True, slots=True)
class GivenNode:
    """A node with the device whose it is; a companion may be given by several entries."""

    node: DeviceNode
    device: SysDevice
    is_companion: bool = False


class Nodes:
    """Finds the nodes of devices for one group of rules.

    Args:
        asked: the names of properties in the templates of the group.
    """

    def __init__(self, rules: Sequence[NodeRule], asked: Sequence[str], index: PropertyIndex, hardware: Hardware):
        self._rules = rules
        self._asked = asked
        self._index = index
        self._hardware = hardware

    def plain(self, devices: Iterable[SysDevice]) -> list[GivenNode]:
        """The nodes of these devices under their own names, and what programs need beside them."""
        given = [
            GivenNode(DeviceNode(device.node, permissions=PERMISSIONS), device) for device in devices if device.node
        ]
        return given + [
            GivenNode(DeviceNode(each.node, permissions=PERMISSIONS), each, is_companion=True)
            for each in self._companions([each.device for each in given])
        ]

    def chosen(self, owner: SysDevice, members: Sequence[SysDevice]) -> list[GivenNode] | str:
        """The nodes that the rules choose in a physical device, or a sentence about what is missing.

        Args:
            members: devices that belong to ``owner`` wherever they are.
        """
        family = {device.path: device for device in self._family(owner, members) if device.node}
        companions = {device.path: device for device in self._companions(family.values())}
        everything = {**family, **companions}
        given: list[GivenNode] = []
        for rule in self._rules:
            paths = self._index.matching(rule.selector, everything.keys())
            if not paths and not rule.is_optional:
                line = f" at line {rule.spot.line}" if rule.spot.line else ""
                return (
                    f"{self._hardware.identity(owner)} has no node for the rule of nodes{line}, so it is not a unit;"
                    " bind the driver that makes the node, or write optional: true."
                )
            for device in sorted((everything[path] for path in paths), key=natural):
                place = self._place(rule, device)
                if isinstance(place, TemplateProblem):
                    return f"{device.node} is not given, for its place in the container is not known: {place.text}."
                node = DeviceNode(device.node, container_path=place, permissions=rule.permissions)
                given.append(GivenNode(node, device, device.path in companions))
        return given

    def _family(self, owner: SysDevice, members: Sequence[SysDevice]) -> Iterable[SysDevice]:
        yield owner
        yield from members
        for device in self._hardware.below(owner):
            if self._hardware.physical(device).path == owner.path:
                yield device

    def _companions(self, devices: Iterable[SysDevice]) -> list[SysDevice]:
        nodes = {_COMPANIONS[device.subsystem]: None for device in devices if device.subsystem in _COMPANIONS}
        found = (self._hardware.by_node(node) for node in nodes)
        return [device for device in found if device is not None]

    def _place(self, rule: NodeRule, device: SysDevice) -> str | TemplateProblem:
        own = {"path": device.node, "hostPath": device.node, "name": device.name}
        return container_path(rule.mount_path, device.node, facts_of(self._asked, device, own, self._hardware))


def companions_of(changed: Iterable[SysPath], hardware: Hardware) -> set[SysPath]:
    """The devices whose companion came or went: a driver for all of them is often loaded after theirs."""
    names = {path.rpartition("/")[2] for path in changed if path.rpartition("/")[0].endswith("/misc")}
    subsystems = [each for each, node in _COMPANIONS.items() if node.rpartition("/")[2] in names]
    return {device.path for subsystem in subsystems for device in hardware.devices_of(subsystem)}


def natural(device: SysDevice) -> tuple[object, ...]:
    """The order of devices in which a number counts as one: ``1-1.2`` before ``1-1.10``."""
    parts = _NUMBER.split(device.name)
    return [int(part) if index % 2 else part for index, part in enumerate(parts)], device.path
