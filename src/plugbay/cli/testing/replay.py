"""``plugbay replay``: play a recording again, and compare what happens now."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from plugbay.cli.arguments.options import file_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.printing.logs import configure_logs
from plugbay.cli.printing.output import show
from plugbay.cli.printing.table import printable
from plugbay.cli.testing.plugin_options import add_plugin_options, plugin_command
from plugbay.cli.testing.trace import words_of
from plugbay.cli.testing.trace_output import opened, tell_torn
from plugbay.errors import UsageError
from plugbay.testing.tracing.replay import ReplayReport, replay_trace
from plugbay.testing.tracing.selection import Selection, selection_of
from plugbay.traffic.file_format import read_trace


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Play a recording of `plugbay record` or `plugbay trace -o` again, and tell what differs. After -- comes the "
        "plugin: the kubelet's calls are made to it again, and its answers compared. The exit code is 1 if something "
        "differs.",
        takes_command=True,
        usage="%(prog)s [-h] [OPTION ...] FILE [-- PROGRAM [ARGUMENT ...]]",
        examples=(
            "plugbay replay recording.jsonl -- ./my-plugin --plugin-dir={plugins}",
            "plugbay replay recording.jsonl --only Allocate -- ./my-plugin",
        ),
        run=run,
    )
    parser.add_argument("file", metavar="FILE", type=file_of, help="the recording, or - for standard input")
    parser.add_argument(
        "--only", metavar="METHODS", type=words_of, default=(), help="compare these methods only: Allocate,Register"
    )
    parser.add_argument(
        "--resource", metavar="NAME", action="append", default=[], help="compare this resource only; may be repeated"
    )
    add_plugin_options(parser)


def run(args: argparse.Namespace) -> int:
    """Replay to a program."""
    selection = selection_of(args.only, args.resource)
    if not args.command:
        raise UsageError("say to what plugin after --, such as: plugbay replay recording.jsonl -- ./my-plugin")
    configure_logs("warning", sys.stderr, form="text")
    report = asyncio.run(_to_program(args, selection))
    show("".join(f"{printable(line)}\n" for line in report.lines()))
    return 1 if report.has_differences else 0


async def _to_program(args: argparse.Namespace, selection: Selection) -> ReplayReport:
    with opened(args.file) as lines:
        records = list(read_trace(lines, args.file, torn=tell_torn))
    return await replay_trace(records, plugin_command(args), os.environ, selection, source=args.file)
