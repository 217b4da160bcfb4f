"""A plugin's program that is traced or recorded: the options for its kubelet, and the run."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from plugbay.cli.arguments.options import add_root, directory_of
from plugbay.cli.arguments.roots import chosen_root
from plugbay.cli.printing.output import show_note
from plugbay.cli.testing.plugin_options import plugin_command, told_to_end
from plugbay.cli.testing.trace_output import TraceOutput
from plugbay.errors import UsageError
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import parse_resource_name
from plugbay.ops.clock import SystemClock
from plugbay.ops.tasks import first, ungrouped
from plugbay.testing.tracing.program import shell_code
from plugbay.testing.tracing.session import TraceSettings, trace


def add_kubelet_options(parser: argparse.ArgumentParser) -> None:
    """``--node``, ``--root``, ``--kubelet`` and ``--admit``, for `run_traced`."""
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


async def run_traced(args: argparse.Namespace, output: TraceOutput) -> int:
    """Run the program, hand every record to ``output``, and return the exit code."""
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


def _echo(piece: bytes) -> None:
    sys.stderr.buffer.write(piece)
    sys.stderr.flush()


def _pod(text: str) -> tuple[str, int]:
    resource, _, count = text.rpartition("=")
    if not count.isdigit() or int(count) < 1:
        raise argparse.ArgumentTypeError(f"wants RESOURCE=N, such as example.com/gopher=1, found {text!r}")
    return parse_resource_name(resource), int(count)
