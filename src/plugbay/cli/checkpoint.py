"""``plugbay checkpoint``: what a kubelet's device manager wrote down."""

from __future__ import annotations

import argparse

from plugbay.cli.command_parser import CommandParser, Subparsers, add_commands


def add_parser(subparsers: Subparsers) -> None:
    subparsers.add_parser(
        "checkpoint",
        fill=_add_commands,
        help="look into a kubelet's kubelet_internal_checkpoint",
        description="Look into kubelet_internal_checkpoint, the file in which a kubelet's device manager remembers "
        "which container holds which devices. No kubelet is asked.",
        examples=(
            "plugbay checkpoint show /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint",
            "plugbay checkpoint diff before after",
        ),
    )


def _add_commands(parser: CommandParser) -> None:
    commands = add_commands(parser, dest="checkpoint_command")
    for add in (_add_show, _add_verify, _add_convert, _add_diff):
        add(commands)


def run(args: argparse.Namespace) -> int:
    # Imported here: --help does not pay for it.
    from plugbay.cli import checkpoint_commands as commands

    match args.checkpoint_command:
        case "show":
            return commands.show_checkpoint(args)
        case "verify":
            return commands.verify_checkpoint(args)
        case "convert":
            return commands.convert_checkpoint(args)
        case "diff":
            return commands.diff_checkpoints(args)
        case other:
            raise AssertionError(other)


def _add_show(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "show",
        help="show which container holds which devices, and what the plugins answered",
        description="Show a checkpoint: its entries, the registered devices, and the decoded Allocate responses. "
        "A wrong checksum is shown and is not a failure; see verify.",
    )
    _add_file(parser)
    parser.add_argument("-o", "--output", choices=("json", "yaml"), default="", help="another form of output")


def _add_verify(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "verify",
        help="tell whether a kubelet would load the file",
        description="Exit with 0 if a kubelet would load the file, with 1 and the reason if not.",
    )
    _add_file(parser)


def _add_convert(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "convert",
        help="write a file of any kubelet in today's format, sorted",
        description="Write the checkpoint in the format of kubelet 1.20 and newer, sorted and with its checksum. Reads "
        "the format of 1.19 and older too; it has no NUMA nodes, so all devices come to node 0.",
    )
    _add_file(parser)
    parser.add_argument("--to", metavar="FILE2", help="replace this file (default: standard output)")
    parser.add_argument("--ignore-checksum", action="store_true", help="convert a file whose checksum is wrong")


def _add_diff(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "diff",
        help="compare two files by pod, container and resource",
        description="Compare what two checkpoints say, in whatever order they say it. Exits with 0 if it is the same, "
        "with 1 if not, with 2 if a file cannot be read.",
    )
    _add_file(parser)
    parser.add_argument("other", metavar="FILE2", help="what to compare with; - for standard input")


def _add_file(parser: CommandParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the checkpoint; - for standard input")
