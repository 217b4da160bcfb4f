"""``plugbay schema``: JSON Schemas of files, for editors and for checks elsewhere."""

from __future__ import annotations

import argparse
import json

from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.printing.output import show
from plugbay.plugins.generic.config.schema import config_schema


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Print the JSON Schema of a config. Editors complete and explain its fields if the first line of a YAML file "
        "is `# yaml-language-server: $schema=FILE`, with the file that the schema was written to.",
        examples=("plugbay schema generic",),
        run=run,
    )
    parser.add_argument("name", choices=("generic",), help="generic: the config of `plugbay serve generic`")


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    show(json.dumps(config_schema(), indent=2) + "\n")
    return 0
