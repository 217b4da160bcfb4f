"""Units: what is scheduled, each with its ID and all that an answer needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from plugbay.model.edits import DeviceNode, Mount
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.plugins.generic.config.rules import Entry, RuleGroup
from plugbay.plugins.generic.machine.values import SysPath
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class Unit:
    """One device of a resource.

    Attributes:
        entry, group: the rules that made it.
        copy: its number among the units of the same match, from 0 on.
        nodes, mounts: in the order of the rules.
        interfaces: names of network interfaces.
        physical: equal for units of one physical device, or of one match that is not a device.
        numa_nodes, pcie_root: by sysfs, or by the group; empty for "not known".
        facts: the properties for templates, such as ``vendor``, ``serial``, ``path`` and ``name``.
        sys_paths: the kernel's devices that it is made of.
    """

    id: DeviceId
    resource: ResourceName
    entry: Entry
    group: RuleGroup
    copy: int
    nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    interfaces: tuple[str, ...] = ()
    physical: str = ""
    numa_nodes: frozenset[int] = frozenset()
    pcie_root: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    sys_paths: tuple[SysPath, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleTrouble:
    """Something that a look found and that is not an error of the file: it is told once while it lasts.

    Attributes:
        resource: the resource or the entry's name.
        text: a sentence for the log, with what to do.
    """

    resource: str
    text: str


@dataclass(frozen=True, slots=True)
class SelectedUnits:
    """The outcome of a look.

    Attributes:
        units: by resource, in the order of their IDs; a resource without units is there too, if its name is known.
    """

    units: Mapping[ResourceName, tuple[Unit, ...]]
    troubles: tuple[RuleTrouble, ...] = ()
