"""``plugbay node``: this machine as a node with a device manager."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Final

from plugbay.cli.command_parser import CommandParser, Subparsers, add_aliases, add_commands
from plugbay.cli.names import node_name
from plugbay.cli.parsing import (
    add_log_options,
    add_metrics_address,
    add_root,
    at_least,
    duration_s,
    path_of,
)
from plugbay.cli.release_options import add_release_options
from plugbay.cli.runtime_options import add_container_log_options, add_runtime_options
from plugbay.cli.topology_options import add_topology_options

_ALIASES: Final = {"get": ("ls", "list"), "describe": ("inspect",)}


def add_parser(subparsers: Subparsers) -> None:
    subparsers.add_parser(
        "node",
        fill=_add_commands,
        help="run this machine's node, and look at it",
        description="Run this machine's node, look at it, empty it.",
    )


def _add_commands(parser: CommandParser) -> None:
    from plugbay.cli import node_arguments as arguments

    commands = add_commands(parser, dest="node_command")
    for add in (
        _add_up,
        arguments.add_down,
        arguments.add_status,
        arguments.add_enclose,
        arguments.add_get,
        arguments.add_describe,
        arguments.add_devices,
        arguments.add_wait,
        _add_cordon,
        _add_drain,
        _add_uncordon,
    ):
        add_root(add(commands))
    add_aliases(commands, _ALIASES)


def run(args: argparse.Namespace) -> int:
    # Each command is imported when it is wanted: --help and the others do not pay for it.
    match args.node_command:
        case "up":
            return _up(args)
        case "down":
            from plugbay.cli.node_down import stop_node

            return stop_node(args)
        case "status":
            from plugbay.cli.node_down import show_status

            return show_status(args)
        case "enclose":
            from plugbay.cli.node_enclose import enclose

            return enclose(args)
        case "get":
            from plugbay.cli.node_get import get_nodes

            return get_nodes(args)
        case "describe":
            from plugbay.cli.node_get import describe_nodes

            return describe_nodes(args)
        case "devices":
            from plugbay.cli.node_devices import show_devices

            return show_devices(args)
        case "wait":
            from plugbay.cli.node_wait import wait_for_nodes

            return wait_for_nodes(args)
        case "cordon":
            from plugbay.cli.node_drain import cordon_node

            return cordon_node(args)
        case "drain":
            from plugbay.cli.node_drain import drain_node

            return drain_node(args)
        case "uncordon":
            from plugbay.cli.node_drain import uncordon_node

            return uncordon_node(args)
        case other:
            raise AssertionError(other)


def _up(args: argparse.Namespace) -> int:
    from plugbay.cli.roots import chosen_root

    root = chosen_root(args)
    if not args.detach:
        return _up_here(args, root, lambda: None)
    from plugbay.cli.node_background import up_in_background

    return up_in_background(root, lambda answers: _up_here(args, root, answers))


def _up_here(args: argparse.Namespace, root: Path, answers: Callable[[], None]) -> int:
    from plugbay.cli.starting import announced_start

    # Around the import too, which takes the most time of all.
    with announced_start(root) as started:
        from plugbay.cli.node_up import run_node_up

        def ready() -> None:
            started()
            answers()

        return run_node_up(args, ready)


def _add_up(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser(
        "up",
        help="run the node in the foreground until SIGTERM or Ctrl-C, or with -d in the background",
        description="Run a node on a root of its own: a device manager for plugins, and pods as plain processes "
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
    parser.add_argument(
        "--manifests",
        metavar="DIR",
        type=path_of,
        help="keep the pods of the manifests (*.yaml, *.yml, *.json) in DIR running, and follow their changes; "
        "pods whose manifest was removed, or came from a different --manifests directory, are stopped",
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
    add_log_options(parser)
    add_metrics_address(parser)
    return parser


def _add_drain(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser(
        "drain",
        help="stop all pods, and take no new ones",
        description="Stop all pods and forget them, and take no new ones before `plugbay node uncordon`. Pods from "
        "the node's manifest directory stay.",
        examples=('plugbay node drain "$(hostname)" --timeout 2m',),
    )
    _add_node(parser)
    parser.add_argument(
        "--grace-period", type=int, metavar="SECONDS", help="time to stop by itself (default: each pod's own)"
    )
    parser.add_argument(
        "--timeout",
        type=duration_s,
        default="0",
        metavar="TIME",
        help="how long to wait for the pods' end, such as 90s; 0 is without end (default: %(default)s)",
    )
    return parser


def _add_cordon(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser(
        "cordon",
        help="take no new pods",
        description="Take no new pods before `plugbay node uncordon`; its pods go on.",
    )
    _add_node(parser)
    return parser


def _add_uncordon(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser(
        "uncordon",
        help="take pods again, after cordon or drain",
        description="Take pods again, after `plugbay node cordon` or `plugbay node drain`.",
    )
    _add_node(parser)
    return parser


def _add_node(parser: CommandParser) -> None:
    parser.add_argument("name", metavar="NAME", type=node_name, help="the node's name, as `plugbay node get` shows it")
