"""``plugbay node get`` and ``plugbay node describe``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime

from plugbay.cli import v1
from plugbay.cli.client import DEVICES_PATH, NodeClient, events_path, nodes_path
from plugbay.cli.listing import Listing, named, show_found
from plugbay.cli.node_describe import node_description
from plugbay.cli.output import Form, show
from plugbay.cli.roots import chosen_root
from plugbay.cli.rows import View, node_view, wide_node_view


def get_nodes(args: argparse.Namespace) -> int:
    nodes, failed = _wanted(NodeClient(chosen_root(args)), args)
    form = Form(args.output)
    show_found(Listing(lambda: _view(nodes, form), form), args, nodes)
    return int(failed)


def describe_nodes(args: argparse.Namespace) -> int:
    client = NodeClient(chosen_root(args))
    nodes, failed = _wanted(client, args)
    devices = client.get(DEVICES_PATH)
    show("\n\n".join(_description(client, node, devices) for node in nodes))
    return int(failed)


def _wanted(client: NodeClient, args: argparse.Namespace) -> tuple[list[v1.Json], bool]:
    if args.names:
        return named(args.names, lambda name: client.get(nodes_path(name)))
    return v1.objects(client.get(nodes_path()), "items"), False


def _view(nodes: Sequence[v1.Json], form: Form) -> View:
    return wide_node_view(nodes) if form is Form.WIDE else node_view(nodes)


def _description(client: NodeClient, node: v1.Json, devices: v1.Json) -> str:
    about = client.get(events_path(None), {"involvedObject": v1.name(node)})
    events = [each for each in v1.objects(about, "items") if v1.text(each, "involvedObject", "kind") == "Node"]
    return node_description(node, devices=devices, events=events, now=datetime.now(UTC), zone=None)
