"""The NUMA nodes of this machine, as sysfs tells."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from plugbay.model.topology import ONE_NODE, NumaTopology

_NODE: Final = re.compile(r"node([0-9]+)")


def read_numa_nodes(sys: Path) -> NumaTopology:
    """The nodes below ``sys``, which is ``/sys``; those without CPUs too, as for a kubelet.

    Distances are given for all nodes or, if one of the files cannot be read, for none.

    Source: cAdvisor ``utils/sysinfo``, ``GetNodesInfo``; Linux ``Documentation/ABI/stable/sysfs-devices-node``.
    """
    directory = sys / "devices/system/node"
    try:
        names = [match[1] for path in directory.iterdir() if (match := _NODE.fullmatch(path.name))]
    except FileNotFoundError:
        return ONE_NODE
    nodes = tuple(sorted(map(int, names)))
    if not nodes:
        return ONE_NODE
    try:
        distances = {node: _distances(directory / f"node{node}/distance", nodes) for node in nodes}
    except (OSError, ValueError):
        distances = {}
    return NumaTopology(nodes, distances)


def _distances(path: Path, nodes: tuple[int, ...]) -> dict[int, int]:
    """The file has a number for each node there is, in their order."""
    return dict(zip(nodes, map(int, path.read_text().split()), strict=True))
