"""``plugbay help``: the same as ``--help``."""

from __future__ import annotations

import argparse

from plugbay.cli.command_parser import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "help",
        help="show the help of a command",
        description="Show the help of a command, as --help after it does.",
        examples=("plugbay help pod run",),
    )
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="the command, such as: pod run")


def run(args: argparse.Namespace) -> int:
    # Imported here: the parser of all commands imports this module.
    from plugbay.cli.main import make_parser
    from plugbay.cli.output import show

    parser = make_parser()
    for word in args.words:
        parser = parser.command(word)
    show(parser.format_help())
    return 0
