"""The things that the plugins of all resources of a process share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from plugbay.sdk.process.recent_allocations import RecentAllocations
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class PluginSurroundings:
    """The things that all plugins of a process share.

    Attributes:
        root: of the machine's files.
        variables: the environment of commands.
        given: what containers were given a moment ago, in the event loop's time.
    """

    root: Path
    variables: Mapping[str, str]
    given: RecentAllocations = field(default_factory=RecentAllocations)
