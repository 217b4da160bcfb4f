"""``plugbay node wait``: until a node is as it should be."""

from __future__ import annotations

import argparse

from plugbay.cli.arguments.names import node_name
from plugbay.cli.arguments.options import add_root, add_timeout
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.roots import chosen_root
from plugbay.cli.kubectl.client import NodeClient, nodes_path
from plugbay.cli.kubectl.listing import named
from plugbay.cli.kubectl.wait_conditions import parse_node_condition
from plugbay.cli.kubectl.waiting import wait_for
from plugbay.cli.printing.output import show_error
from plugbay.printers import v1


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Wait until the node is as --for says; exits with 1 if it is not in time.",
        examples=(
            "plugbay node wait --for=resource=example.com/gopher=2",
            "plugbay node wait --for='resource=example.com/gopher>=1' --timeout 5m",
            "plugbay node wait --for=condition=Ready n1",
        ),
        run=wait_for_nodes,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", type=node_name, help="only these")
    parser.add_argument(
        "--for",
        dest="condition",
        required=True,
        metavar="WHAT",
        help="resource=R=N: N devices of resource R can be allocated, exactly so many; resource=R>=N: at least N; "
        "resource=R: at least 1; capacity=R=N: counting unhealthy devices too; "
        "condition=NAME[=STATUS] or jsonpath='{.PATH}'[=VALUE]",
    )
    add_timeout(parser)
    add_root(parser)


def wait_for_nodes(args: argparse.Namespace) -> int:
    """Wait for nodes; returns 1 if one is missing or did not meet the condition in time."""
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
