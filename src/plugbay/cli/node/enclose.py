"""``plugbay node enclose``: run a program that sees the node's root in place of a stock kubelet's."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from plugbay.cli.arguments.options import add_root
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.roots import chosen_root
from plugbay.cli.arguments.starting import wait_for_start
from plugbay.cli.kubectl.client import NodeClient
from plugbay.cli.printing.output import show_error
from plugbay.errors import NodeUnreachable, PathUnusable, UsageError
from plugbay.kernel.enclosed import become, exit_code_of
from plugbay.kubelet.paths import STOCK_ROOT, KubeletPaths

_PROC: Final = Path("/proc")
_START_S: Final = 30.0


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Run a program, such as a plugin with /var/lib/kubelet compiled in, with the node's root there. "
        "Only the program sees that, in a mount namespace of its own; without root rights it is in a user namespace as "
        "well. A kubelet that lives at /var/lib/kubelet is out of its sight. It takes the place of this command: "
        "signals and its exit code are its own, and nothing is left when it has ended.",
        takes_command=True,
        usage="%(prog)s [-h] [--root DIR] -- PROGRAM [ARGUMENT ...]",
        examples=("plugbay node enclose -- ./my-plugin --verbose",),
        run=enclose,
    )
    add_root(parser)


def enclose(args: argparse.Namespace) -> int:
    """Become the program. Returns only if it cannot be run, with the exit code that a shell has for that."""
    if not args.command:
        raise UsageError("say what to run after --, such as: plugbay node enclose -- ./my-plugin")
    root = chosen_root(args)
    _wait_for_node(root)
    try:
        error = become(args.command, directory=root, place=STOCK_ROOT, proc_root=_PROC)
    except OSError as refused:
        problem = f"cannot be mounted in a namespace of its own ({refused.strerror})"
        raise PathUnusable(str(STOCK_ROOT), f"{problem}; it takes root, or user namespaces for this user") from refused
    show_error(f"{args.command[0]}: {error.strerror}")
    return exit_code_of(error)


def _wait_for_node(root: Path) -> None:
    """Wait until the node's root exists; a plugin waits for the rest itself."""
    try:
        wait_for_start(root, for_s=_START_S)
    except TimeoutError:
        raise NodeUnreachable(str(NodeClient(root).socket), f"it is still starting after {_START_S:g} s") from None
    if not KubeletPaths(root).device_plugins.is_dir():
        raise NodeUnreachable(str(NodeClient(root).socket), "no node has been here yet")
