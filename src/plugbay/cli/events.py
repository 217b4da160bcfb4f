"""``plugbay events``: what happened to pods and to the node."""

from __future__ import annotations

import argparse
from typing import Final

from plugbay.cli.command_parser import Subparsers
from plugbay.cli.names import object_of
from plugbay.cli.parsing import add_all_namespaces, add_namespace, add_output, add_root

_TYPES: Final = frozenset({"Normal", "Warning"})


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "events",
        help="show what happened, oldest first",
        description="Show what happened to pods and to the node, oldest first. The node keeps the newest 1000.",
        examples=("plugbay events --for pod/web -w", "plugbay events -A --types=Warning"),
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


def run(args: argparse.Namespace) -> int:
    # Imported here: --help does not pay for it.
    from plugbay.cli.events_get import get_events

    return get_events(args)
