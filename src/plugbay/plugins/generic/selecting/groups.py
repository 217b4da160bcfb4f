"""A group of rules between looks, whatever its rules look at."""

from __future__ import annotations

from typing import Protocol

from plugbay.plugins.generic.config.rules import Paths, What
from plugbay.plugins.generic.machine.values import SysPath
from plugbay.plugins.generic.selecting.drafts import Drafts
from plugbay.plugins.generic.selecting.paths import PathLook
from plugbay.plugins.generic.selecting.ports import Hardware
from plugbay.plugins.generic.selecting.sight import HostSight


class GroupLook(Protocol):
    """A group between looks, with what it has found."""

    @property
    def directories(self) -> frozenset[str]:
        """Where names may come and go that this group would see."""

    def is_touched(self, paths: frozenset[str], devices: frozenset[SysPath]) -> bool:
        """Whether these changes may be seen by this group."""

    def look(self, paths: frozenset[str], devices: frozenset[SysPath]) -> Drafts:
        """The drafts now, of which those that these changes do not concern are those of the last look."""


def group_look(what: What, sight: HostSight, hardware: Hardware) -> GroupLook:
    """A look for the matches of a group's rules, which has not looked yet."""
    match what:
        case Paths():
            return PathLook(what, sight, hardware)
        case _:
            raise NotImplementedError(what)
