"""``plugbay replay``: play a recording again, and compare what happens now."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from plugbay.cli.arguments.options import file_of, path_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.printing.logs import configure_logs
from plugbay.cli.printing.output import show
from plugbay.cli.testing.plugin_options import add_plugin_options, plugin_command
from plugbay.cli.testing.trace import words_of
from plugbay.cli.testing.trace_output import opened, tell_torn
from plugbay.errors import UsageError
from plugbay.errors.wording import printable
from plugbay.ops.clock import SystemClock
from plugbay.testing.tracing.manager.replay import replay_to_manager
from plugbay.testing.tracing.replay import replay_trace
from plugbay.testing.tracing.report import ReplayReport
from plugbay.testing.tracing.selection import Selection, selection_of
from plugbay.testing.tracing.socket_replay import replay_to_socket
from plugbay.traffic.file_format import read_recording
from plugbay.traffic.records import TrafficRecord


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Play a recording of `plugbay record` or `plugbay trace -o` again, and tell what differs. Without a plugin it "
        "is played to our device manager, in a private directory: plugins that answer as recorded, pods that ask as "
        "recorded. With a program after --, or with --plugin, the kubelet's calls are made to that plugin, and its "
        "answers compared. The exit code is 1 if something differs.",
        takes_command=True,
        usage="%(prog)s [-h] [OPTION ...] FILE [-- PROGRAM [ARGUMENT ...]]",
        examples=(
            "plugbay replay recording.jsonl",
            "plugbay replay recording.jsonl -- ./my-plugin --plugin-dir={plugins}",
            "plugbay replay recording.jsonl --only Allocate --plugin /run/my-plugin/plugin.sock",
        ),
        run=run,
    )
    parser.add_argument("file", metavar="FILE", type=file_of, help="the recording, or - for standard input")
    parser.add_argument(
        "--only", metavar="METHODS", type=words_of, default=(), help="compare these methods only: Allocate,Register"
    )
    parser.add_argument(
        "--resource",
        metavar="NAME",
        action="append",
        default=[],
        help="compare this resource only, and play no other to a plugin; may be repeated",
    )
    parser.add_argument(
        "--plugin",
        metavar="SOCKET",
        type=path_of,
        help="make the calls to the plugin that serves this socket; give it no pods meanwhile",
    )
    add_plugin_options(parser)


def run(args: argparse.Namespace) -> int:
    """Replay to a manager, a program or a socket."""
    selection = selection_of(args.only, args.resource)
    if args.plugin is not None and args.command:
        raise UsageError("--plugin and a program after -- are two plugins; a replay has one")
    if not args.command and (args.env or args.private_root):
        raise UsageError("--env and --private-root are for a program, which comes after --")
    configure_logs("error", sys.stderr, form="text")
    report = asyncio.run(_replayed(args, selection))
    show("".join(f"{printable(line)}\n" for line in report.lines()))
    return 1 if report.has_differences else 0


async def _replayed(args: argparse.Namespace, selection: Selection) -> ReplayReport:
    with opened(args.file) as file:
        header, lines = read_recording(file, args.file, torn=tell_torn)
        records = (line.event for line in lines if isinstance(line.event, TrafficRecord))
        if args.command:
            return await replay_trace(records, plugin_command(args), os.environ, selection, source=args.file)
        if args.plugin is not None:
            return await replay_to_socket(records, args.plugin, selection, source=args.file)
        return await replay_to_manager(header, lines, selection, clock=SystemClock(), source=args.file)
