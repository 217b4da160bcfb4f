"""``plugbay trace``: show what passes between a plugin and its kubelet, and keep it."""

from __future__ import annotations

import argparse
import asyncio
import sys

from plugbay.cli.arguments.options import duration_s, file_of, path_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.printing.logs import configure_logs
from plugbay.cli.testing.plugin_options import add_plugin_options
from plugbay.cli.testing.trace_output import TraceOutput, show_file
from plugbay.cli.testing.traced_program import add_kubelet_options, run_traced
from plugbay.errors import UsageError
from plugbay.testing.tracing.selection import selection_of


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Run a device plugin, in any language, and show every message between it and its kubelet. Without an option "
        "the kubelet is one of our own, in a directory of its own; --node and --root stand before the kubelet of "
        "`plugbay node up`, --kubelet before a stock one. The plugin finds the kubelet at /var/lib/kubelet, in a mount "
        "namespace that only it sees, or is told where it is by {root}, {plugins} or {socket} in its command line. The "
        "exit code is the plugin's; 0 when a signal or --for has ended it.",
        takes_command=True,
        usage="%(prog)s [-h] [OPTION ...] -- PROGRAM [ARGUMENT ...]",
        examples=(
            "plugbay trace -- ./my-plugin --verbose",
            "plugbay trace --admit example.com/gopher=1 -- ./my-plugin",
            "plugbay trace --only Allocate,ListAndWatch -o trace.jsonl -- ./my-plugin --plugin-dir={plugins}",
            "plugbay trace --kubelet /var/lib/kubelet --for 10m -o trace.jsonl -- ./my-plugin",
            "plugbay trace --show trace.jsonl --only Register",
        ),
        run=run,
    )
    shown = parser.add_argument_group("what is shown")
    shown.add_argument(
        "--only", metavar="METHODS", type=words_of, default=(), help="these methods only: Allocate,ListAndWatch"
    )
    shown.add_argument(
        "--resource", metavar="NAME", action="append", default=[], help="this resource only; may be given again"
    )
    shown.add_argument("--full", action="store_true", help="show messages and lists of devices whole")
    shown.add_argument("--json", action="store_true", help="show JSON lines, in the format of -o")
    shown.add_argument(
        "-o", "--output", metavar="FILE", type=path_of, help="write everything as JSON lines to a new FILE as well"
    )
    shown.add_argument(
        "--no-mask",
        action="store_true",
        help="show values of variables and annotations too whose names look like secrets (TOKEN, PASSWORD, KEY)",
    )
    shown.add_argument(
        "--plugin-output", action="store_true", help="let the plugin print to standard error; else it is kept back"
    )
    add_kubelet_options(parser)
    parser.add_argument(
        "--show", metavar="FILE", type=file_of, help="show a file of -o or of `plugbay record`, and run nothing"
    )
    parser.add_argument(
        "--for", dest="for_s", metavar="TIME", type=duration_s, help="end the plugin after so long, such as 90s or 10m"
    )
    add_plugin_options(parser)


def run(args: argparse.Namespace) -> int:
    """Trace, or show."""
    selection = selection_of(args.only, args.resource)
    if args.show is not None:
        if args.command:
            raise UsageError("--show runs nothing, so no program can follow --; `plugbay replay` does")
        show_file(args.show, selection, is_json=args.json, is_full=args.full, is_masked=not args.no_mask)
        return 0
    if not args.command:
        raise UsageError("say what to trace after --, such as: plugbay trace -- ./my-plugin")
    configure_logs("warning", sys.stderr, form="text")
    with TraceOutput(
        selection, path=args.output, is_json=args.json, is_full=args.full, is_masked=not args.no_mask
    ) as output:
        return asyncio.run(run_traced(args, output))


def words_of(text: str) -> tuple[str, ...]:
    """Words with commas or spaces between; for ``type=`` of an argument."""
    return tuple(text.replace(",", " ").split())
