"""Options of the topology manager. Policy options are checked where a kubelet checks them: when the node starts."""

from __future__ import annotations

import argparse
from typing import Final

POLICIES: Final = ("none", "best-effort", "restricted", "single-numa-node")
SCOPES: Final = ("container", "pod")
_MOST_NODES: Final = 64
"""The most NUMA nodes: the number of bits in a kubelet's sets of nodes."""


def add_topology_options(parser: argparse.ArgumentParser) -> None:
    """A kubelet's three options, and one to try them on any machine."""
    parser.add_argument(
        "--topology-manager-policy",
        choices=POLICIES,
        metavar="POLICY",
        default="none",
        help=f"how devices are aligned with NUMA nodes: {', '.join(POLICIES)} (default: %(default)s)",
    )
    parser.add_argument(
        "--topology-manager-scope",
        choices=SCOPES,
        metavar="SCOPE",
        default="container",
        help="what is aligned as one: container, each by itself, or pod (default: %(default)s)",
    )
    parser.add_argument(
        "--topology-manager-policy-options",
        metavar="NAME=VALUE,...",
        default="",
        help="prefer-closest-numa-nodes=true looks at distances; max-allowable-numa-nodes=N allows more than 8 nodes",
    )
    parser.add_argument(
        "--fake-numa-nodes",
        metavar="N",
        type=_numa_nodes,
        help="pretend to have the NUMA nodes 0 to N-1, to try a policy or a plugin (default: the machine's own)",
    )


def _numa_nodes(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 2 and 1 <= int(text) <= _MOST_NODES):
        raise argparse.ArgumentTypeError(f"wants a number from 1 to {_MOST_NODES}, found {text!r}")
    return int(text)
