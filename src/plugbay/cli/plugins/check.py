"""``plugbay check``: find faults in a plugin's file that would show only on a node."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import asdict

from plugbay.cli.arguments.options import path_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.printing.logs import configure_logs
from plugbay.cli.printing.output import show, show_note
from plugbay.errors import UsageError
from plugbay.sdk.inspection.lint import lint


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Find faults in files with plugins: methods that are called almost as a hook (P102), classes that "
        "are not served (P103), health checks that cannot be called (P104), resources that are served twice (P105), "
        "devices that no kubelet would take (P201), device IDs that do not stay when the plugin starts again (P202), "
        "paths that devices need and that are missing on this machine (P203); and files that cannot be loaded (P101). "
        "The files are loaded and their devices looked for, twice. The exit code is 1 if something was found.",
        examples=("plugbay check gophers.py", "plugbay check gophers.py cards.py -o json"),
        run=run,
    )
    parser.add_argument("files", nargs="+", metavar="FILE", type=path_of, help="a Python file with plugins")
    parser.add_argument("-o", "--output", choices=("json",), default="", help="a JSON array of objects")


def run(args: argparse.Namespace) -> int:
    """Show all findings; returns 1 if there are some."""
    if others := [each for each in args.files if each.suffix != ".py"]:
        raise UsageError(f"{others[0]} is not a Python file (.py)")
    files = dict.fromkeys(each.absolute() for each in args.files)
    configure_logs("critical", sys.stderr)  # faults are printed below
    found = [finding for file in files for finding in asyncio.run(lint(file))]
    if args.output:
        show(json.dumps([asdict(each) for each in found], indent=4) + "\n")
    elif found:
        show("".join(f"{each}\n" for each in found))
    else:
        show_note("No faults found.")
    return 1 if found else 0
