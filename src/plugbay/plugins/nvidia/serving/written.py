"""The CDI specs of a node, as they were written last, and what they depend on. Blocks where it looks at files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from plugbay.plugins.nvidia.answers.features import CdiClass
from plugbay.values import dataclass

_DRIVER_NODES: Final = ("nv", "dxg")
"""The beginnings of the names of the driver's nodes on servers and Tegras, and in WSL."""


@dataclass(frozen=True, slots=True)
class WrittenSpecs:
    """The CDI specs of a node.

    Attributes:
        classes: those that have a spec.
        without_nodes: the problems of devices that no spec names, because their device nodes are missing, by ID.
        warnings: sentences for the log.
    """

    classes: frozenset[CdiClass] = frozenset()
    without_nodes: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def driver_nodes(root: Path) -> frozenset[tuple[str, int]]:
    """The driver's device nodes below a root, with their numbers: specs are due when these change."""
    return frozenset(_found(root / "dev") | _found(root / "dev/nvidia-caps"))


def _found(directory: Path) -> set[tuple[str, int]]:
    nodes = set()
    # It is not there, or a node goes at this moment: then the next look tells.
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for each in entries:
            if each.name.startswith(_DRIVER_NODES):
                nodes.add((each.path, each.stat(follow_symlinks=False).st_rdev))
    return nodes
