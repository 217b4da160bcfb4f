"""Options of the commands that can serve the page of a node."""

from __future__ import annotations

import argparse

from plugbay.errors import UsageError
from plugbay.ops.listening import TcpAddress, parse_address


def add_page_options(parser: argparse._ActionsContainer) -> None:
    """``--ui`` and ``--ui-name``, for `chosen_page`."""
    parser.add_argument(
        "--ui",
        metavar="ADDR",
        nargs="?",
        const="127.0.0.1:0",
        help="serve a page for browsers, which only shows, at ADDR: :9401 or 127.0.0.1:9401; without an address, on a "
        "free port of 127.0.0.1. The log has its URL, with a token if other machines can connect (default: nowhere)",
    )
    parser.add_argument(
        "--ui-name",
        metavar="NAME",
        action="append",
        default=[],
        help="a name of this host by which browsers may ask for the page, besides localhost and addresses; repeatable",
    )


def chosen_page(args: argparse.Namespace) -> TcpAddress | None:
    """The address of ``--ui``; None for no page.

    Raises:
        UsageError: it is not an address that a browser can open, or names are given without it.
    """
    if args.ui is None:
        if args.ui_name:
            raise UsageError("--ui-name goes with --ui only")
        return None
    address = parse_address(args.ui)
    if not isinstance(address, TcpAddress):
        raise UsageError(f"--ui {args.ui}: a browser cannot open a unix socket; give an address such as 127.0.0.1:9401")
    return address
