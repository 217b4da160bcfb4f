"""``plugbay presets``: configs of the generic plugin to start from."""

from __future__ import annotations

import argparse

from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.printing.output import show
from plugbay.cli.printing.table import Columns
from plugbay.plugins.generic.presets.catalogue import PRESETS, presets_text


def declare(parser: CommandParser) -> None:
    parser.describe(
        "List the presets of the generic plugin, or print some as a config to start from. The domain in it is an "
        "example: write your own.",
        examples=("plugbay presets", "plugbay presets serial video"),
        run=run,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a preset to print")


def run(args: argparse.Namespace) -> int:
    """Print presets as one config, or the table of all."""
    show(presets_text(args.names) if args.names else Columns(("NAME", "DEVICES")).table(PRESETS.items()))
    return 0
