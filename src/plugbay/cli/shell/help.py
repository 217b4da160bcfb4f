"""``plugbay help``: the same as ``--help``."""

from __future__ import annotations

import argparse

from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.main import make_parser
from plugbay.cli.printing.output import show


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Show the help of a command, as --help after it does.",
        examples=("plugbay help pod run",),
        run=run,
    )
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="the command, such as: pod run")


def run(args: argparse.Namespace) -> int:
    parser = make_parser()
    for word in args.words:
        parser = parser.command(word)
    show(parser.format_help())
    return 0
