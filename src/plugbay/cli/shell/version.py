"""``plugbay version``: show the version."""

from __future__ import annotations

import argparse
import platform

from plugbay.cli.arguments.options import add_page_output
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.kubectl.forms import Form, object_text
from plugbay.cli.main import version_line
from plugbay.cli.printing.output import show
from plugbay.version import VERSION


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Show the version of this command. No node is asked: `plugbay node get` shows a node's version.",
        examples=("plugbay version -o json",),
        run=run,
    )
    add_page_output(parser)


def run(args: argparse.Namespace) -> int:
    if not args.output:
        show(f"{version_line()}\n")
        return 0
    about: dict[str, object] = {
        "version": VERSION,
        "python": platform.python_version(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
    show(object_text(about, Form(args.output)))
    return 0
