"""``plugbay node kubeconfig`` and ``plugbay kubectl``: the node's API for the clients of Kubernetes."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

from plugbay.cli.arguments.options import add_root
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.roots import chosen_root, root_option
from plugbay.cli.arguments.starting import is_node_up, wait_for_start
from plugbay.cli.printing.output import show, show_error
from plugbay.errors import NodeUnreachable, PathUnusable, UsageError
from plugbay.node.config import control_socket, kubeconfig_path

_KUBECTL: Final = "kubectl"
_START_S: Final = 30.0
_NOT_FOUND: Final = 127


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Show the path of the kubeconfig that `plugbay node up --api` writes: with it kubectl and every other client "
        "of Kubernetes reach the node. It holds the token: a user who can read it can run programs as the node does.",
        examples=(
            "export KUBECONFIG=$(plugbay node kubeconfig)",
            "plugbay node kubeconfig --raw > node.yaml",
        ),
        run=show_kubeconfig,
    )
    parser.add_argument("--raw", action="store_true", help="show its content")
    add_root(parser)


def declare_kubectl(parser: CommandParser) -> None:
    parser.describe(
        "Run the kubectl that is installed, on the node that `plugbay node up --api` runs. All words after --root are "
        "kubectl's.",
        usage="%(prog)s [--root DIR] [ARGUMENT ...]",
        takes_all=True,
        examples=("plugbay kubectl get pods -o wide", "plugbay kubectl --root ~/n1 apply -f pod.yaml"),
        run=run_kubectl,
    )
    add_root(parser)


def show_kubeconfig(args: argparse.Namespace) -> int:
    path = _kubeconfig(args)
    show(path.read_text(encoding="utf-8") if args.raw else f"{path}\n")
    return 0


def run_kubectl(args: argparse.Namespace) -> int:
    """Become kubectl; returns only if there is none."""
    environ = {**os.environ, "KUBECONFIG": str(_kubeconfig(args))}
    try:
        os.execvpe(_KUBECTL, [_KUBECTL, *args.command], environ)
    except FileNotFoundError:
        show_error(
            "kubectl is not installed, or not in PATH; the node's own commands, such as `plugbay pod get`, need none"
        )
        return _NOT_FOUND


def _kubeconfig(args: argparse.Namespace) -> Path:
    """The node's kubeconfig; a node that is starting is waited for.

    Raises:
        NodeUnreachable: no node runs.
        UsageError: it serves no API over TCP.
        PathUnusable: its kubeconfig may not be read.
    """
    root = chosen_root(args)
    path = kubeconfig_path(root)
    try:
        wait_for_start(root, for_s=_START_S)
    except TimeoutError:
        raise NodeUnreachable(str(control_socket(root)), f"it is still starting after {_START_S:g} s") from None
    if not is_node_up(root):
        raise NodeUnreachable(str(control_socket(root)), "no node runs there")
    if not path.exists():
        raise UsageError(
            f"the node on {root} serves no API over TCP; start it with: plugbay node up{root_option(args)} --api"
        )
    if not os.access(path, os.R_OK):
        raise PathUnusable(str(path), "is another user's")
    return path
