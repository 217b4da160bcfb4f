"""An entry between looks: the units of its groups by resource, each ID once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from plugbay.model.ids import DeviceId, ResourceName
from plugbay.plugins.generic.config.rules import Entry
from plugbay.plugins.generic.config.template_names import names_asked
from plugbay.plugins.generic.machine.values import SysPath
from plugbay.plugins.generic.selecting.drafts import Draft, Named
from plugbay.plugins.generic.selecting.groups import GroupLook
from plugbay.plugins.generic.selecting.ids import id_apart
from plugbay.plugins.generic.selecting.making import Made, made_of
from plugbay.plugins.generic.selecting.naming import EntryNames
from plugbay.plugins.generic.selecting.ports import Hardware
from plugbay.plugins.generic.selecting.units import Unit
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class Claimed:
    """A unit with the host paths that are its entry's alone."""

    unit: Unit
    draft: Draft


class EntryLook:
    """An entry with what its groups have found.

    Attributes:
        resources: the units by resource and ID; the resource of an entry with a fixed name is always there.
        claims: the host paths that its units give.
        unnamed: why a match belongs to no resource, by what it stands for first: a path or an identity.
        troubles: sentences.
    """

    def __init__(self, entry: Entry, groups: list[GroupLook], hardware: Hardware) -> None:
        self.entry = entry
        self.names = EntryNames(entry)
        self.groups = groups
        self.resources: dict[ResourceName, dict[DeviceId, Claimed]] = {}
        self.claims: frozenset[str] = frozenset()
        self.unnamed: dict[str, str] = {}
        self.troubles: tuple[str, ...] = ()
        self._hardware = hardware
        self._asked = [names_asked(entry, group) for group in entry.groups]
        self._made: list[dict[int, Made]] = [{} for _ in groups]
        self._group_troubles: list[tuple[str, ...]] = [() for _ in groups]
        self._is_new = True

    def look(self, paths: frozenset[str], devices: frozenset[SysPath]) -> bool:
        """Look again at the groups that these changes may touch; whether there were any."""
        touched = [index for index, group in enumerate(self.groups) if self._is_new or group.is_touched(paths, devices)]
        for index in touched:
            self._look_at(index, paths, devices)
        if touched or self._is_new:
            self._join()
        is_changed, self._is_new = bool(touched) or self._is_new, False
        return is_changed

    def _look_at(self, index: int, paths: frozenset[str], devices: frozenset[SysPath]) -> None:
        found = self.groups[index].look(paths, devices)
        before, group = self._made[index], self.entry.groups[index]
        made: dict[int, Made] = {}
        for draft in found.drafts:
            # A draft that is the same object has not changed, and neither have its units.
            known = before.get(id(draft))
            made[id(draft)] = known or made_of(draft, self.entry, group, self.names, self._asked[index], self._hardware)
        self._made[index] = made
        self._group_troubles[index] = found.troubles

    def _join(self) -> None:
        resources: dict[ResourceName, dict[DeviceId, Claimed]] = {}
        if self.names.fixed is not None:
            resources[self.names.fixed] = {}
        troubles = dict.fromkeys([self.names.problem] if self.names.problem else [])
        claims: set[str] = set()
        self.unnamed = {}
        for made_by_draft, group_troubles in zip(self._made, self._group_troubles, strict=True):
            troubles |= dict.fromkeys(group_troubles)
            for made in made_by_draft.values():
                if made.resource is None:
                    troubles[made.trouble] = None
                    self.unnamed[made.draft.stands_for[0]] = made.trouble
                    continue
                claims.update(made.draft.claims)
                units = resources.setdefault(made.resource, {})
                for unit in made.units:
                    known = units.get(unit.id)
                    if known is not None and known.draft.stands_for != made.draft.stands_for:
                        unit = replace(unit, id=id_apart(unit.copy, made.draft.stands_for))
                    units[unit.id] = Claimed(unit, made.draft)
        twice = _given_twice(claimed.draft for units in resources.values() for claimed in units.values())
        troubles |= dict.fromkeys(twice)
        self.resources, self.claims, self.troubles = resources, frozenset(claims), tuple(troubles)


def _given_twice(drafts: Iterable[Draft]) -> list[str]:
    """Sentences about files that one entry gives by their own names and by links, as if they were two."""
    links: dict[str, str] = {}
    names: set[str] = set()
    for draft in drafts:
        if draft.named is Named.BY_PATHS:
            names.update(draft.stands_for)
        if draft.named is Named.BY_PATHS and len(draft.stands_for) == 1:
            for target in set(draft.claims).difference(draft.stands_for):
                links.setdefault(target, draft.stands_for[0])
    return [
        f"{links[target]} leads to {target}, and both are given, so two containers may get the same device; let the"
        " rules match one of them only."
        for target in sorted(links.keys() & names)
    ]
