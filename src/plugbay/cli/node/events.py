"""``plugbay events``: what happened to pods and to the node."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from typing import Final

from plugbay.cli.arguments.names import object_of
from plugbay.cli.arguments.options import add_all_namespaces, add_namespace, add_output, add_root, chosen_namespace
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.roots import chosen_root
from plugbay.cli.kubectl.client import NodeClient, events_path
from plugbay.cli.kubectl.forms import Form
from plugbay.cli.kubectl.listing import ObjectPrinter
from plugbay.cli.kubectl.rows import View, event_view, oldest_first, wide_event_view
from plugbay.cli.printing.output import show_note
from plugbay.documents import Json
from plugbay.printers import v1

_TYPES: Final = frozenset({"Normal", "Warning"})


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Show what happened to pods and to the node, oldest first. The node keeps the newest 1000.",
        examples=("plugbay events --for pod/web -w", "plugbay events -A --types=Warning"),
        run=get_events,
    )
    parser.add_argument(
        "--for", dest="about", metavar="KIND/NAME", type=object_of, help="only about this object, such as pod/gopher"
    )
    parser.add_argument(
        "--types",
        metavar="TYPE,...",
        type=_types,
        default=frozenset(),
        help="only events of these types: Normal, Warning",
    )
    parser.add_argument("-w", "--watch", action="store_true", help="go on with every new event")
    add_namespace(parser)
    add_all_namespaces(parser)
    add_output(parser)
    add_root(parser)


def _types(text: str) -> frozenset[str]:
    found = frozenset(each.strip().capitalize() for each in text.split(","))
    if not found <= _TYPES:
        raise argparse.ArgumentTypeError(f"wants Normal, Warning or both with a comma between, found {text!r}")
    return found


def get_events(args: argparse.Namespace) -> int:
    client = NodeClient(chosen_root(args))
    namespace = chosen_namespace(args)
    form = Form(args.output)
    kind, name = args.about or ("", "")
    query = {"fieldSelector": f"involvedObject.name={name}"} if name else {}
    is_wanted = _filter(kind, args.types)
    printer = ObjectPrinter(lambda: _view(args), form)
    events = [each for each in v1.objects(client.get(events_path(namespace), query), "items") if is_wanted(each)]
    if args.watch:
        printer.show_each(oldest_first(events))
    elif events or not form.is_table:
        printer.show_list(oldest_first(events))
    else:
        show_note(f"No events found{f' in {namespace} namespace' if namespace is not None else ''}.")
    if args.watch:
        with client.watch(events_path(namespace), query) as changes:
            for change in changes:
                # An event that is forgotten to make room did not happen again.
                if change.type != "DELETED" and is_wanted(change.object):
                    printer.show_change(change)
    return 0


def _view(args: argparse.Namespace) -> View:
    view = wide_event_view() if args.output == Form.WIDE.value else event_view()
    return view.with_namespaces() if args.all_namespaces else view


def _filter(kind: str, types: Collection[str]) -> Callable[[Json], bool]:
    """All kinds when ``kind`` is empty, and all types when there are none."""
    return lambda event: (
        kind in ("", v1.text(event, "involvedObject", "kind")) and (not types or v1.text(event, "type") in types)
    )
