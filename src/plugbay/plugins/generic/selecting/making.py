"""Drafts become units: with a resource, copies, IDs, topology and the properties for templates. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from plugbay.model.ids import DeviceId, ResourceName
from plugbay.plugins.generic.config.rules import Entry, RuleGroup
from plugbay.plugins.generic.selecting.drafts import Draft, Named
from plugbay.plugins.generic.selecting.ids import id_of_identities, id_of_paths
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


def made_of(draft: Draft, entry: Entry, group: RuleGroup, names: EntryNames, hardware: Hardware) -> Made:
    """The copies of a draft, as many as its group counts."""
    facts = facts_of(draft, hardware)
    resource = names.of(facts, draft.stands_for[0])
    if isinstance(resource, Unnamed):
        return Made(draft, None, trouble=resource.text)
    numa_nodes = group.numa_nodes
    if numa_nodes is None:
        numa_nodes = frozenset[int]().union(*map(hardware.numa_nodes, draft.devices))
    roots = {hardware.pcie_root(device) for device in draft.devices} - {""}
    physical = draft.physical or physical_of(draft, hardware)
    units = tuple(
        Unit(
            id=draft_id(draft, copy),
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


def facts_of(draft: Draft, hardware: Hardware) -> Mapping[str, str]:
    """The properties of a draft for templates: those of its first device, and its own."""
    if not draft.devices:
        return draft.facts
    return {**hardware.facts(draft.devices[0]), **draft.facts}


def physical_of(draft: Draft, hardware: Hardware) -> str:
    """The identity of the first device's hardware; a device that is only software counts if there is no other."""
    owners = [hardware.physical(device) for device in draft.devices]
    real = [owner for owner in owners if not owner.path.startswith("/devices/virtual/")]
    return hardware.identity((real or owners)[0]) if owners else "+".join(draft.stands_for)


def draft_id(draft: Draft, copy: int) -> DeviceId:
    """The ID of copy number ``copy``, from 0 on, if no other unit of the resource has it."""
    if draft.named is Named.BY_PATHS:
        return id_of_paths(copy, draft.stands_for)
    return id_of_identities(copy, draft.stands_for)
