"""``plugbay check``: find faults in a plugin's file, or in a config, that would show only on a node."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

from plugbay.cli.arguments.options import path_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.printing.logs import configure_logs
from plugbay.cli.printing.output import show, show_note
from plugbay.errors import UsageError
from plugbay.sdk.inspection.lint import lint

_PYTHON: Final = ".py"


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Find faults in files with plugins: methods that are called almost as a hook (P102), classes that "
        "are not served (P103), health checks that cannot be called (P104), resources that are served twice (P105), "
        "devices that no kubelet would take (P201), device IDs that do not stay when the plugin starts again (P202), "
        "paths that devices need and that are missing on this machine (P203); and files that cannot be loaded (P101). "
        "The files are loaded and their devices looked for, twice. Or find all problems in configs of the generic "
        "plugin, each with line and column, and show what a good one matches on this machine now. The exit code is 1 "
        "if something is wrong.",
        examples=(
            "plugbay check gophers.py",
            "plugbay check gophers.py cards.py -o json",
            "plugbay check devices.yaml",
        ),
        run=run,
    )
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        type=path_of,
        help="a Python file with plugins (.py), or a config of the generic plugin (.json, .toml, or else YAML)",
    )
    parser.add_argument("-o", "--output", choices=("json",), default="", help="a JSON array of objects")
    parser.add_argument(
        "--lenient", action="store_true", help="of a config: only warn of what squat's generic-device-plugin ignores"
    )
    parser.add_argument(
        "--explain",
        default="",
        metavar="PATH",
        help="of a config: say which rule takes this device (or network interface), and of each other rule why not",
    )
    parser.add_argument(
        "--machine-root",
        metavar="DIR",
        type=path_of,
        default=Path("/"),
        help="of a config: where /dev and /sys of the machine are (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Show all findings; returns 1 if there are some."""
    if configs := [each for each in args.files if each.suffix != _PYTHON]:
        return _check_configs(configs, args)
    if args.lenient or args.explain:
        given = "--lenient" if args.lenient else "--explain"
        raise UsageError(f"{given} is for configs of the generic plugin, and these files are Python")
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


def _check_configs(configs: list[Path], args: argparse.Namespace) -> int:
    if len(configs) < len(args.files):
        raise UsageError("configs and Python files are checked by a command each")
    # Imported here: authors of plugins do without the megabytes of the generic one.
    from plugbay.cli.plugins.check_config import check_configs

    configure_logs("critical", sys.stderr)
    files = list(dict.fromkeys(configs))
    root = args.machine_root.absolute()
    return check_configs(
        files, explained=args.explain, machine_root=root, is_lenient=args.lenient, is_json=bool(args.output)
    )
