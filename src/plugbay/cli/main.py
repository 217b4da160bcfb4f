"""The entry point of the ``plugbay`` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from plugbay.cli.arguments.options import add_root
from plugbay.cli.arguments.parser import CommandParser, Subparsers, add_commands
from plugbay.cli.commands import COMMANDS, Command, Group
from plugbay.cli.printing.outcome import outcome
from plugbay.cli.printing.output import PROGRAM
from plugbay.ops.late_modules import fill_late
from plugbay.version import VERSION


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command that ``argv`` (by default the process's arguments) names; returns the exit code.

    Usage errors and ``--help`` leave by SystemExit, as argparse has it.
    """
    fill_late()
    return outcome(lambda: make_parser().parse_args(sys.argv[1:] if argv is None else argv))


def make_parser() -> CommandParser:
    """The whole command line, with all commands below it."""
    parser = CommandParser(
        prog=PROGRAM,
        epilog="Exit codes: 0 when it worked, 1 when it did not, 2 when the arguments make no sense, 130 after Ctrl-C. "
        "Commands that have others, or a verdict, say so in their own help.",
    )
    parser.describe(
        "Kubernetes device plugins on one machine: write them, use them, run pods with them.",
        examples=(
            "plugbay node up -d",
            "plugbay serve --node directory --resource example.com/gopher --path /etc/gophers --env Gopher &",
            "plugbay pod run web --resource example.com/gopher=1 -- sleep 1000",
            "plugbay pod exec web -- env",
        ),
    )
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and exit")
    add_root(parser, default=None)
    commands = add_commands(parser, dest="command_name")
    for words, entry in COMMANDS.items():
        if isinstance(entry, Group):
            commands.add_parser(words, help=entry.help, fill_group=partial(_fill_group, words, entry))
            _add_aliases(commands, words, entry)
        elif " " not in words:
            _add_command(commands, words, entry)
    return parser


def _fill_group(group: str, entry: Group, parser: CommandParser) -> None:
    parser.describe(entry.description, examples=entry.examples)
    commands = add_commands(parser, dest=f"{group}_command")
    for words, below in COMMANDS.items():
        if isinstance(below, Command) and words.startswith(f"{group} "):
            _add_command(commands, words.removeprefix(f"{group} "), below)


def _add_command(commands: Subparsers, name: str, entry: Command) -> None:
    commands.add_parser(name, help=entry.help, fill=entry.declare)
    _add_aliases(commands, name, entry)


def _add_aliases(commands: Subparsers, name: str, entry: Command | Group) -> None:
    """Let a command be called by other names too; no help shows them."""
    for alias in entry.aliases:
        commands.choices[alias] = commands.choices[name]


def version_line() -> str:
    """The answer to ``plugbay --version``."""
    return f"{PROGRAM} {VERSION}"


class _ShowVersion(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(version_line())
        parser.exit()
