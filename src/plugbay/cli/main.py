"""The entry point: which command runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from plugbay.cli import (
    cdi,
    check,
    checkpoint,
    cni,
    completion,
    devices,
    events,
    help,
    new,
    node,
    pod,
    podresources,
    serve,
    version,
)
from plugbay.cli.command_parser import CommandParser, add_aliases, add_commands
from plugbay.cli.outcome import outcome
from plugbay.cli.output import PROGRAM
from plugbay.cli.parsing import add_root

_COMMANDS: Final = {
    "serve": serve,
    "devices": devices,
    "check": check,
    "new": new,
    "node": node,
    "pod": pod,
    "events": events,
    "podresources": podresources,
    "checkpoint": checkpoint,
    "cdi": cdi,
    "cni": cni,
    "completion": completion,
    "version": version,
    "help": help,
}
_ALIASES: Final = {"pod": ("pods", "po"), "node": ("nodes", "no"), "events": ("event", "ev"), "devices": ("device",)}


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command that ``argv`` (by default the process's arguments) names; returns the exit code.

    Usage errors and ``--help`` leave by SystemExit, as argparse has it.
    """

    def parse() -> argparse.Namespace:
        return make_parser().parse_args(sys.argv[1:] if argv is None else argv)

    def act(args: argparse.Namespace) -> int:
        exit_code: int = _COMMANDS[args.command_name].run(args)
        return exit_code

    return outcome(parse, act)


def make_parser() -> CommandParser:
    """The whole command line, with all commands below it."""
    parser = CommandParser(
        prog=PROGRAM,
        description="Kubernetes device plugins on one machine: write them, use them, run pods with them.",
        examples=(
            "plugbay node up -d",
            "plugbay serve --node directory --resource example.com/gopher --path /etc/gophers --env Gopher &",
            "plugbay pod run web --resource example.com/gopher=1 -- sleep 1000",
            "plugbay pod exec web -- env",
        ),
        epilog="Exit codes: 0 when it worked, 1 when it did not, 2 when the arguments make no sense, 130 after Ctrl-C. "
        "Commands that have others, or a verdict, say so in their own help.",
    )
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and exit")
    add_root(parser, default=None)
    commands = add_commands(parser, dest="command_name")
    for module in _COMMANDS.values():
        module.add_parser(commands)
    add_aliases(commands, _ALIASES)
    return parser


class _ShowVersion(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(version.version_line())
        parser.exit()
