"""``plugbay node get`` and ``plugbay node describe``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime

from plugbay.cli import v1
from plugbay.cli.client import DEVICES_PATH, NodeClient, events_path, nodes_path, selecting
from plugbay.cli.listing import Listing, named, show_found, show_nothing_found
from plugbay.cli.node_describe import node_description
from plugbay.cli.output import Form, chosen_form, list_of, object_text, show, show_page
from plugbay.cli.roots import chosen_root
from plugbay.cli.rows import node_view, wide_node_view
from plugbay.errors import UsageError


def get_nodes(args: argparse.Namespace) -> int:
    if args.names and args.selector:
        raise UsageError("name the nodes or say -l, not both")
    client = NodeClient(chosen_root(args))
    form, text = chosen_form(args.output)
    nodes, failed = _wanted(client, args.names, args.selector)
    listing = Listing(wide_node_view if form is Form.WIDE else node_view, form, text=text)
    if args.watch:
        listing.show_each(nodes)
    else:
        show_found(listing, args, nodes)
    if not nodes and not failed and form.is_table:
        show_nothing_found(None)
    if args.watch and not failed:
        with client.watch(nodes_path(), selecting(args.selector)) as changes:
            for change in changes:
                if not args.names or v1.name(change.object) in args.names:
                    listing.show_change(change)
    return int(failed)


def describe_nodes(args: argparse.Namespace) -> int:
    client = NodeClient(chosen_root(args))
    nodes, failed = _wanted(client, args.names)
    devices = client.get(DEVICES_PATH)
    about = [(node, _events(client, node)) for node in nodes]
    if args.output:
        pages: list[v1.Json] = [{"node": node, "devices": devices, "events": events} for node, events in about]
        show(object_text(pages[0] if len(pages) == 1 else list_of(pages), Form(args.output)))
    else:
        now = datetime.now(UTC)
        show_page(
            "\n\n".join(
                node_description(node, devices=devices, events=each, now=now, zone=None) for node, each in about
            )
        )
    return int(failed)


def _wanted(client: NodeClient, names: Sequence[str], selector: str | None = None) -> tuple[list[v1.Json], bool]:
    if names:
        return named(names, lambda name: client.get(nodes_path(name)))
    return v1.objects(client.get(nodes_path(), selecting(selector)), "items"), False


def _events(client: NodeClient, node: v1.Json) -> list[v1.Json]:
    about = client.get(events_path(None), {"involvedObject": v1.name(node)})
    return [each for each in v1.objects(about, "items") if v1.text(each, "involvedObject", "kind") == "Node"]
