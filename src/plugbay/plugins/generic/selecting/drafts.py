"""Drafts: units before they have a resource and an ID. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from plugbay.model.edits import DeviceNode, Mount
from plugbay.plugins.generic.machine.values import SysDevice
from plugbay.values import dataclass


class Named(Enum):
    """The text from which a unit gets its ID."""

    BY_PATHS = "as the other plugin does"
    BY_IDENTITY = "by what stays the same when it is plugged in again"
    BY_NUMBER = "by the number of the copy"


@dataclass(frozen=True, slots=True)
class Draft:
    """A match of a group of rules, of which ``count`` units are made.

    Attributes:
        stands_for: the host paths or identities of which the ID is made, in order.
        nodes, mounts: in the order of the rules, each once.
        claims: the host paths which no other entry may give, unless both share.
        facts: for templates, beside those of the first device.
        physical: see `Unit`; by the first device that has hardware if empty.
    """

    stands_for: tuple[str, ...]
    named: Named
    nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    interfaces: tuple[str, ...] = ()
    devices: tuple[SysDevice, ...] = ()
    claims: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    physical: str = ""


@dataclass(frozen=True, slots=True)
class Drafts:
    """The outcome of a group; ``troubles`` are sentences, and one group says each once."""

    drafts: tuple[Draft, ...] = ()
    troubles: tuple[str, ...] = ()
