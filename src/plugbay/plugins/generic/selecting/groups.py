"""A group of rules between looks, whatever its rules look at."""

from __future__ import annotations

from typing import Protocol, assert_never

from plugbay.plugins.generic.config.rules import (
    DevNames,
    Entry,
    Gifts,
    Interfaces,
    Match,
    Paths,
    RuleGroup,
    Tokens,
    Usb,
)
from plugbay.plugins.generic.config.template_names import names_asked
from plugbay.plugins.generic.machine.values import SysPath
from plugbay.plugins.generic.selecting.dev_names import DevNameLook
from plugbay.plugins.generic.selecting.drafts import Drafts
from plugbay.plugins.generic.selecting.index import PropertyIndex
from plugbay.plugins.generic.selecting.matching import DeviceUnits, InterfaceUnits, MatchLook
from plugbay.plugins.generic.selecting.memory import RuleMemory
from plugbay.plugins.generic.selecting.nodes import Nodes
from plugbay.plugins.generic.selecting.paths import PathLook
from plugbay.plugins.generic.selecting.ports import Hardware
from plugbay.plugins.generic.selecting.sight import HostSight
from plugbay.plugins.generic.selecting.tokens import TokenLook
from plugbay.plugins.generic.selecting.usb import UsbLook
from plugbay.values import dataclass


class GroupLook(Protocol):
    """A group between looks, with what it has found."""

    @property
    def directories(self) -> frozenset[str]:
        """Where names may come and go that this group would see."""

    def is_touched(self, paths: frozenset[str], devices: frozenset[SysPath]) -> bool:
        """Whether these changes may be seen by this group."""

    def look(self, paths: frozenset[str], devices: frozenset[SysPath]) -> Drafts:
        """The drafts now, of which those that these changes do not concern are those of the last look."""


@dataclass(frozen=True, slots=True)
class RuleSurroundings:
    """The things that all groups look at.

    Attributes:
        memory: of earlier looks.
        has_compat_ids: whether units of USB devices have the other plugin's IDs.
    """

    sight: HostSight
    index: PropertyIndex
    hardware: Hardware
    memory: RuleMemory
    has_compat_ids: bool = False


def group_looks(entry: Entry, around: RuleSurroundings) -> list[GroupLook]:
    """The groups of an entry, none of which has looked yet."""
    looks: list[GroupLook] = []
    for group in entry.groups:
        tokens = sum(isinstance(look, TokenLook) for look in looks)
        looks.append(_look_of(entry, group, around, tokens))
    return looks


def _look_of(entry: Entry, group: RuleGroup, around: RuleSurroundings, tokens: int) -> GroupLook:
    match group.what:
        case Paths() as what:
            return PathLook(what, around.sight, around.hardware)
        case DevNames() as what:
            return DevNameLook(what, around.sight, around.hardware)
        case Usb() as what:
            nodes = Nodes(what.nodes, names_asked(entry, group), around.index, around.hardware)
            count = max(group.count, 1)
            return UsbLook(what, count, nodes, around.hardware, around.memory, has_compat_ids=around.has_compat_ids)
        case Match() as what:
            nodes = Nodes(what.nodes, names_asked(entry, group), around.index, around.hardware)
            units = DeviceUnits(what, nodes, around.hardware, gives_more=_gives_more(group.gifts))
            return MatchLook(units, around.index, around.hardware)
        case Interfaces() as what:
            return MatchLook(InterfaceUnits(what, around.hardware), around.index, around.hardware)
        case Tokens():
            return TokenLook(tokens)
        case _:
            assert_never(group.what)


def _gives_more(gifts: Gifts) -> bool:
    return bool(gifts.env or gifts.mounts or gifts.annotations)
