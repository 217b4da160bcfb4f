"""``plugbay node wait``: until a node is as it should be."""

from __future__ import annotations

import argparse

from plugbay.cli import v1
from plugbay.cli.client import NodeClient, nodes_path
from plugbay.cli.listing import named
from plugbay.cli.output import show_error
from plugbay.cli.roots import chosen_root
from plugbay.cli.wait_conditions import parse_node_condition
from plugbay.cli.waiting import wait_for


def wait_for_nodes(args: argparse.Namespace) -> int:
    """Returns 1 when a node is not there, or was not in time."""
    condition = parse_node_condition(args.condition)
    client = NodeClient(chosen_root(args))
    # The watch begins before anything is looked at: no change in between is missed.
    with client.watch(nodes_path(), for_s=args.timeout if args.timeout >= 0 else None) as changes:
        found = named(args.names, lambda name: client.get(nodes_path(name))) if args.names else None
        nodes, failed = found or (v1.objects(client.get(nodes_path()), "items"), False)
        late = wait_for(changes, {v1.name(node): node for node in nodes}, condition, kind="node")
    for name, node in late.items():
        show_error(f"timed out waiting for the condition on nodes/{name}: {condition.seen(node)}")
    return int(failed or bool(late))
