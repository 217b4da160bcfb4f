"""``plugbay node up``: this machine as a node with a device manager."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from plugbay.cli.arguments.options import (
    add_log_options,
    add_metrics_address,
    add_root,
    at_least,
    path_of,
)
from plugbay.cli.arguments.page_options import add_page_options
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.roots import chosen_root, root_option
from plugbay.cli.node.registration_options import add_registration_options
from plugbay.cli.node.release_options import add_release_options
from plugbay.cli.node.runtime_options import add_container_log_options, add_runtime_options
from plugbay.cli.node.topology_options import add_topology_options
from plugbay.cli.printing.outcome import end_early_on_sigterm
from plugbay.ops.garbage import nothing_to_collect


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Run a node on a root of its own: a device manager for plugins, and pods as plain processes "
        "or as real containers. "
        "SIGTERM, Ctrl-C or the end of its terminal stops the node and leaves its pods running; the next `node up` "
        "takes them over.",
        examples=(
            "plugbay node up",
            "plugbay node up -d",
            "plugbay node up --root ~/n1 --name n1 --manifests pods/",
            "plugbay node up --topology-manager-policy single-numa-node --fake-numa-nodes 2",
            "plugbay node up --runtime oci --feature-gates DeviceManagerDeallocate=true --metrics :9400",
        ),
        run=run,
    )
    parser.add_argument(
        "-d",
        "--detach",
        action="store_true",
        help="run the node in the background: end once it answers, and leave its log in node.log below its root",
    )
    parser.add_argument("--name", metavar="NAME", help="the node's name (default: the host name)")
    parser.add_argument(
        "--max-pods",
        metavar="N",
        type=at_least(0),
        default=110,
        help="how many pods the node takes at a time (default: %(default)s)",
    )
    add_registration_options(parser)
    parser.add_argument(
        "--manifests",
        metavar="DIR",
        type=path_of,
        help="keep the pods of the manifests (*.yaml, *.yml, *.json) in DIR running, and follow their changes; "
        "pods whose manifest was removed, or came from a different --manifests directory, are stopped",
    )
    parser.add_argument(
        "--plugins-group",
        metavar="GROUP",
        help="a group, by name or number, whose members may register plugins and have their sockets beside the node's "
        "(default: only the node's user, and root)",
    )
    parser.add_argument(
        "--on-foreign-checkpoint",
        choices=("import", "refuse"),
        default="import",
        help="what to do about a device checkpoint that a kubelet wrote below the root: take it over in place of "
        "what the node knows, or do not start (default: %(default)s)",
    )
    parser.add_argument(
        "--on-device-failure",
        choices=("keep", "fail-pod"),
        default="keep",
        help="what becomes of a running pod when one of its devices turns unhealthy: its status shows it, or the pod "
        "fails and is stopped (default: %(default)s)",
    )
    parser.add_argument(
        "--on-missing-mount",
        choices=("make", "refuse"),
        default="make",
        help="what to do about a mount of a plugin or pod whose host path does not exist: make it an empty directory, "
        "as a kubelet's engine does, or refuse to start the container (default: %(default)s)",
    )
    add_runtime_options(parser)
    add_container_log_options(parser)
    add_topology_options(parser)
    add_release_options(parser)
    parser.add_argument(
        "--feature-gates",
        metavar="NAME=BOOL,...",
        default="",
        help="switch features on and off, in a kubelet's syntax, such as DeviceManagerDeallocate=true",
    )
    parser.add_argument(
        "--api",
        metavar="ADDRESS",
        nargs="?",
        const="127.0.0.1:0",
        help="serve the node's API for kubectl and other clients too, with TLS and a token, and write a kubeconfig "
        "(`plugbay node kubeconfig` names it); without an address, on a free port of 127.0.0.1",
    )
    parser.add_argument(
        "--record",
        metavar="FILE",
        type=path_of,
        help="keep what plugins and the node say to each other in a new FILE of 64 MiB at most, from the start on, "
        "without what looks like a secret; `plugbay record` does so while the node runs",
    )
    add_log_options(parser)
    add_metrics_address(parser)
    add_page_options(parser)
    add_root(parser)


def run(args: argparse.Namespace) -> int:
    end_early_on_sigterm()
    root = chosen_root(args)
    if not args.detach:
        return _up_here(args, root, lambda: None)
    from plugbay.cli.node.background import up_in_background

    return up_in_background(root, lambda answers: _up_here(args, root, answers), root_option=root_option(args))


def _up_here(args: argparse.Namespace, root: Path, answers: Callable[[], None]) -> int:
    from plugbay.cli.arguments.starting import announced_start

    # The announcement covers the import too, which takes the most time of all.
    with announced_start(root) as started:
        with nothing_to_collect():
            from plugbay.cli.node.foreground import run_node_up

        def ready() -> None:
            started()
            answers()

        return run_node_up(args, ready)
