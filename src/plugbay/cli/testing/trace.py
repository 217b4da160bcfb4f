"""``plugbay trace``: show what passes between a plugin and its kubelet, keep it, and play it again."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from plugbay.cli.arguments.options import add_root, directory_of, duration_s, file_of, path_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.roots import chosen_root
from plugbay.cli.printing.logs import configure_logs
from plugbay.cli.printing.output import show, show_note
from plugbay.cli.printing.table import printable
from plugbay.cli.testing.plugin_options import add_plugin_options, plugin_command, told_to_end
from plugbay.cli.testing.trace_output import TraceOutput, opened, show_file
from plugbay.errors import UsageError
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import parse_resource_name
from plugbay.ops.clock import SystemClock
from plugbay.ops.tasks import first, ungrouped
from plugbay.testing.tracing.file_format import read_trace
from plugbay.testing.tracing.program import shell_code
from plugbay.testing.tracing.replay import replay_trace
from plugbay.testing.tracing.selection import Selection, selection_of
from plugbay.testing.tracing.session import TraceSettings, trace


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
            "plugbay trace --replay trace.jsonl -- ./my-plugin",
        ),
        run=run,
    )
    shown = parser.add_argument_group("what is shown")
    shown.add_argument(
        "--only", metavar="METHODS", type=_words, default=(), help="these methods only: Allocate,ListAndWatch"
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
    kubelet = parser.add_argument_group("the kubelet").add_mutually_exclusive_group()
    kubelet.add_argument("--node", action="store_true", help="stand before the kubelet of `plugbay node up`")
    add_root(kubelet)
    kubelet.add_argument(
        "--kubelet",
        metavar="DIR",
        type=directory_of,
        help="stand before the stock kubelet whose root is DIR, such as /var/lib/kubelet: its pods get the devices of "
        "the traced plugin, so stop the one that runs there first",
    )
    kubelet.add_argument(
        "--admit",
        metavar="RESOURCE=N",
        action="append",
        type=_pod,
        default=[],
        help="give our own kubelet a pod for N devices as soon as they are there; may be given again",
    )
    files = parser.add_argument_group("files of -o").add_mutually_exclusive_group()
    files.add_argument("--show", metavar="FILE", type=file_of, help="show a file, and run nothing")
    files.add_argument(
        "--replay",
        metavar="FILE",
        type=file_of,
        help="make the kubelet's calls of a file again, and compare the answers; the exit code is 1 if some differ",
    )
    parser.add_argument(
        "--for", dest="for_s", metavar="TIME", type=duration_s, help="end the plugin after so long, such as 90s or 10m"
    )
    add_plugin_options(parser)


def run(args: argparse.Namespace) -> int:
    """Trace, show or replay."""
    selection = selection_of(args.only, args.resource)
    if args.show is not None:
        if args.command:
            raise UsageError("--show runs nothing, so no program can follow --; to run one again, use --replay")
        show_file(args.show, selection, is_json=args.json, is_full=args.full, is_masked=not args.no_mask)
        return 0
    if not args.command:
        raise UsageError("say what to trace after --, such as: plugbay trace -- ./my-plugin")
    configure_logs("warning", sys.stderr, form="text")
    if args.replay is not None:
        _refuse_with_replay(args)
        return _replay(args, selection)
    with TraceOutput(
        selection, path=args.output, is_json=args.json, is_full=args.full, is_masked=not args.no_mask
    ) as output:
        return asyncio.run(_trace(args, output))


async def _trace(args: argparse.Namespace, output: TraceOutput) -> int:
    settings = TraceSettings(
        plugin_command(args),
        os.environ,
        kubelet=_kubelet(args),
        admit=tuple(args.admit),
        echo=_echo if args.plugin_output else lambda _: None,
    )
    if args.kubelet is not None:
        show_note(
            f"to the kubelet at {args.kubelet}, this is the plugin of its resources from now on; afterwards their "
            "devices are unhealthy until the real plugin registers again"
        )
    with told_to_end() as told, ungrouped():
        async with trace(settings, output.take, clock=SystemClock()) as tracing:
            await first(tracing.until_ended(), told.wait(), timeout_s=args.for_s)
            has_ended = not tracing.subject.is_running
        return shell_code(tracing.subject) if has_ended else 0


def _kubelet(args: argparse.Namespace) -> KubeletPaths | None:
    if args.admit and (args.root is not None or args.node or args.kubelet is not None):
        raise UsageError("--admit is for a kubelet of our own; give the other one a pod yourself")
    if args.kubelet is not None:
        if args.root is not None:  # given before the command; else the parser has told
            raise UsageError("--root and --kubelet name two kubelets; a plugin has one")
        return KubeletPaths(Path(args.kubelet).absolute())
    if args.node or args.root is not None:
        return KubeletPaths(chosen_root(args))
    return None


def _replay(args: argparse.Namespace, selection: Selection) -> int:
    with opened(args.replay) as lines:
        records = list(read_trace(lines, args.replay))
    replay = replay_trace(records, plugin_command(args), os.environ, selection, source=args.replay)
    report = asyncio.run(replay)
    show("".join(f"{printable(line)}\n" for line in report.lines()))
    return 1 if report.has_differences else 0


def _refuse_with_replay(args: argparse.Namespace) -> None:
    for option, value in (
        ("--kubelet", args.kubelet),
        ("--node", args.node),
        ("--root", args.root),
        ("--admit", args.admit),
        ("--output", args.output),
        ("--json", args.json),
        ("--for", args.for_s),
    ):
        if value:
            raise UsageError(f"{option} says nothing to --replay, which plays the kubelet itself")


def _echo(piece: bytes) -> None:
    sys.stderr.buffer.write(piece)
    sys.stderr.flush()


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


def _pod(text: str) -> tuple[str, int]:
    resource, _, count = text.rpartition("=")
    if not count.isdigit() or int(count) < 1:
        raise argparse.ArgumentTypeError(f"wants RESOURCE=N, such as example.com/gopher=1, found {text!r}")
    return parse_resource_name(resource), int(count)
