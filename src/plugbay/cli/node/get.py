"""``plugbay node get`` and ``plugbay node describe``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime

from plugbay.cli.arguments.names import node_name
from plugbay.cli.arguments.options import add_output_or_template, add_page_output, add_root, add_selector
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.roots import chosen_root
from plugbay.cli.kubectl.client import DEVICES_PATH, NodeClient, events_path, nodes_path, selecting
from plugbay.cli.kubectl.forms import Form, chosen_form, list_of, object_text
from plugbay.cli.kubectl.listing import ObjectPrinter, named, show_found, show_nothing_found
from plugbay.cli.kubectl.rows import node_view, wide_node_view
from plugbay.cli.node.page import node_description
from plugbay.cli.printing.output import show, show_page
from plugbay.documents import Json
from plugbay.errors import UsageError
from plugbay.printers import v1


def declare_get(parser: CommandParser) -> None:
    parser.describe(
        "List the node, with a row for each extended resource of which it has devices; -o wide also shows "
        "resources whose devices are gone.",
        examples=(
            "plugbay node get -w",
            "plugbay node get n1 -o jsonpath='{.status.allocatable}'",
        ),
        run=get_nodes,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", type=node_name, help="only these")
    add_selector(parser)
    parser.add_argument("-w", "--watch", action="store_true", help="go on with every change")
    add_output_or_template(parser)
    add_root(parser)


def declare_describe(parser: CommandParser) -> None:
    parser.describe(
        "Show the node's capacity and what of it is allocatable, each device with its health and holder, "
        "the plugins with their states, and what happened. With -o, the members are node, devices and events.",
        examples=("plugbay node describe", "plugbay node describe -o json"),
        run=describe_nodes,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", type=node_name, help="only these")
    add_page_output(parser)
    add_root(parser)


def get_nodes(args: argparse.Namespace) -> int:
    if args.names and args.selector:
        raise UsageError("name the nodes or say -l, not both")
    client = NodeClient(chosen_root(args))
    form, text = chosen_form(args.output)
    nodes, failed = _wanted(client, args.names, args.selector)
    printer = ObjectPrinter(wide_node_view if form is Form.WIDE else node_view, form, text=text)
    if args.watch:
        printer.show_each(nodes)
    else:
        show_found(printer, args, nodes)
    if not nodes and not failed and form.is_table:
        show_nothing_found(None)
    if args.watch and not failed:
        with client.watch(nodes_path(), selecting(args.selector)) as changes:
            for change in changes:
                if not args.names or v1.name(change.object) in args.names:
                    printer.show_change(change)
    return int(failed)


def describe_nodes(args: argparse.Namespace) -> int:
    client = NodeClient(chosen_root(args))
    nodes, failed = _wanted(client, args.names)
    devices = client.get(DEVICES_PATH)
    about = [(node, _events(client, node)) for node in nodes]
    if args.output:
        pages: list[Json] = [{"node": node, "devices": devices, "events": events} for node, events in about]
        show(object_text(pages[0] if len(pages) == 1 else list_of(pages), Form(args.output)))
    else:
        now = datetime.now(UTC)
        show_page(
            "\n\n".join(
                node_description(node, devices=devices, events=each, now=now, zone=None) for node, each in about
            )
        )
    return int(failed)


def _wanted(client: NodeClient, names: Sequence[str], selector: str | None = None) -> tuple[list[Json], bool]:
    if names:
        return named(names, lambda name: client.get(nodes_path(name)))
    return v1.objects(client.get(nodes_path(), selecting(selector)), "items"), False


def _events(client: NodeClient, node: Json) -> list[Json]:
    about = client.get(events_path(None), {"fieldSelector": f"involvedObject.name={v1.name(node)}"})
    return [each for each in v1.objects(about, "items") if v1.text(each, "involvedObject", "kind") == "Node"]
