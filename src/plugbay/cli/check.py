"""``plugbay check``: what is wrong with a plugin's file and would show only on a node."""

from __future__ import annotations

import argparse

from plugbay.cli.command_parser import Subparsers
from plugbay.cli.parsing import path_of


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "check",
        help="find faults in a plugin's file that would show only on a node",
        description="Find faults in files with plugins: methods that are called almost as a hook (P102), classes that "
        "are not served (P103), health checks that cannot be called (P104), resources that are served twice (P105), "
        "devices that no kubelet would take (P201), device IDs that do not stay when the plugin starts again (P202), "
        "paths that devices need and that are missing on this machine (P203); and files that cannot be loaded (P101). "
        "The files are loaded and their devices looked for, twice. The exit code is 1 if something was found.",
        examples=("plugbay check gophers.py", "plugbay check gophers.py cards.py -o json"),
    )
    parser.add_argument("files", nargs="+", metavar="FILE", type=path_of, help="a Python file with plugins")
    parser.add_argument("-o", "--output", choices=("json",), default="", help="a JSON array of objects")


def run(args: argparse.Namespace) -> int:
    """Show all findings; returns 1 if there are some."""
    import asyncio
    import json
    import sys
    from dataclasses import asdict

    from plugbay.cli.logs import configure_logs
    from plugbay.cli.output import show, show_note
    from plugbay.errors import UsageError
    from plugbay.sdk.lint import lint

    if others := [each for each in args.files if each.suffix != ".py"]:
        raise UsageError(f"{others[0]} is not a Python file (.py)")
    files = dict.fromkeys(each.absolute() for each in args.files)
    configure_logs("critical", sys.stderr)  # what is wrong is said here
    found = [finding for file in files for finding in asyncio.run(lint(file))]
    if args.output:
        show(json.dumps([asdict(each) for each in found], indent=4) + "\n")
    elif found:
        show("".join(f"{each}\n" for each in found))
    else:
        show_note("No faults found.")
    return 1 if found else 0
