"""Drafts become units: with a resource, copies, IDs, topology and the properties for templates. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from plugbay.model.ids import ResourceName
from plugbay.plugins.generic.config.rules import Entry, RuleGroup
from plugbay.plugins.generic.machine.values import SysDevice
from plugbay.plugins.generic.selecting.drafts import Draft
from plugbay.plugins.generic.selecting.facts import facts_of
from plugbay.plugins.generic.selecting.ids import id_of
from plugbay.plugins.generic.selecting.naming import EntryNames, Unnamed
from plugbay.plugins.generic.selecting.ports import Hardware
from plugbay.plugins.generic.selecting.units import Unit
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class Made:
    """The units of a draft; ``trouble`` is a sentence that says why there are none.

    Attributes:
        resource: of all of them; None if there is none.
    """

    draft: Draft
    resource: ResourceName | None
    units: tuple[Unit, ...] = ()
    trouble: str = ""


def made_of(
    draft: Draft, entry: Entry, group: RuleGroup, names: EntryNames, asked: Sequence[str], hardware: Hardware
) -> Made:
    """The copies of a draft, as many as its group counts.

    Args:
        asked: the names of properties in the templates of the group and its entry.
    """
    facts = facts_of(asked, draft.devices[0] if draft.devices else None, draft.facts, hardware)
    resource = names.of(facts, draft.stands_for[0])
    if isinstance(resource, Unnamed):
        return Made(draft, None, trouble=resource.text)
    # What belongs to one piece of hardware is asked of that: its parts are near to the same memory.
    owners = {owner.path: owner for owner in map(hardware.physical, draft.devices)}
    numa_nodes = group.numa_nodes
    if numa_nodes is None:
        numa_nodes = frozenset[int]().union(*map(hardware.numa_nodes, owners.values()))
    roots = {hardware.pcie_root(owner) for owner in owners.values()} - {""}
    physical = draft.physical or _physical_of(draft, [*owners.values()], hardware)
    units = tuple(
        Unit(
            id=id_of(copy, draft.stands_for, draft.named),
            resource=resource,
            entry=entry,
            group=group,
            copy=copy,
            nodes=draft.nodes,
            mounts=draft.mounts,
            interfaces=draft.interfaces,
            physical=physical,
            numa_nodes=numa_nodes,
            pcie_root=min(roots, default=""),
            facts=facts,
            sys_paths=tuple(device.path for device in draft.devices),
        )
        for copy in range(max(group.count, 1))
    )
    return Made(draft, resource, units)


def _physical_of(draft: Draft, owners: Sequence[SysDevice], hardware: Hardware) -> str:
    """The identity of the first device's hardware; a device that is only software counts if there is no other."""
    real = [owner for owner in owners if not owner.path.startswith("/devices/virtual/")]
    return hardware.identity((real or owners)[0]) if owners else "+".join(draft.stands_for)
