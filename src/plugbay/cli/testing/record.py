"""``plugbay record``: keep what a kubelet and its plugins say to each other, as a file for a bug report."""

from __future__ import annotations

import argparse
import asyncio
import sys

from plugbay.cli.arguments.options import bytes_of, duration_s, path_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.printing.logs import configure_logs
from plugbay.cli.printing.outcome import end_early_on_sigterm
from plugbay.cli.testing.plugin_options import add_plugin_options
from plugbay.cli.testing.recorded_node import record_node
from plugbay.cli.testing.trace_output import TraceOutput
from plugbay.cli.testing.traced_program import add_kubelet_options, run_traced
from plugbay.testing.tracing.selection import Selection


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Keep what a kubelet and its device plugins say to each other in a file that can be attached to a bug report. "
        "Without a program, a node of `plugbay node up` is recorded, with all its plugins and pods, while it runs. A "
        "program after -- runs behind a relay, as with `plugbay trace`, and its own registration is all that touches "
        "the kubelet. Values that look like secrets are left out.",
        takes_command=True,
        usage="%(prog)s [-h] [OPTION ...] -o FILE [-- PROGRAM [ARGUMENT ...]]",
        examples=(
            "plugbay record -o recording.jsonl --for 10m",
            "plugbay record -o recording.jsonl --kubelet /var/lib/kubelet --for 10m -- ./my-plugin",
            "plugbay trace --show recording.jsonl",
            "plugbay replay recording.jsonl -- ./my-plugin",
        ),
        run=run,
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=path_of,
        required=True,
        help="the recording, a new file",
    )
    add_recording_options(parser)
    parser.add_argument(
        "--plugin-output", action="store_true", help="let the plugin print to standard error; else it is kept back"
    )
    add_kubelet_options(parser)
    parser.add_argument(
        "--for", dest="for_s", metavar="TIME", type=duration_s, help="end after so long, such as 90s or 10m"
    )
    add_plugin_options(parser)


def add_recording_options(parser: argparse._ActionsContainer) -> None:
    """``--max-size`` and ``--unmasked``."""
    parser.add_argument(
        "--max-size",
        metavar="SIZE",
        type=bytes_of,
        default="64Mi",
        help="the greatest size of the recording, which ends when it is reached (default: %(default)s)",
    )
    parser.add_argument(
        "--unmasked",
        action="store_true",
        help="keep values of variables and annotations too whose names look like secrets (TOKEN, PASSWORD, KEY)",
    )


def run(args: argparse.Namespace) -> int:
    """Record."""
    if not args.command:
        end_early_on_sigterm()
        return record_node(args)
    configure_logs("warning", sys.stderr, form="text")
    output = TraceOutput(
        Selection(),
        path=args.output,
        is_json=False,
        is_full=False,
        is_masked=not args.unmasked,
        most_bytes=args.max_size,
        is_shown=False,
    )
    with output:
        return asyncio.run(run_traced(args, output))
