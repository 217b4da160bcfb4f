"""``plugbay pod``: run pods on this machine's node and look after them."""

from __future__ import annotations

import argparse
from typing import Final

from plugbay.cli.command_parser import CommandParser, Subparsers, add_aliases, add_commands
from plugbay.cli.parsing import add_root

_ALIASES: Final = {
    "run": ("create",),
    "get": ("ls", "list", "ps"),
    "describe": ("inspect",),
    "logs": ("log",),
    "delete": ("rm", "remove", "del"),
}


def add_parser(subparsers: Subparsers) -> None:
    subparsers.add_parser(
        "pod",
        fill=_add_commands,
        help="run pods and look after them",
        description="Run pods on this machine's node and look after them, as kubectl does on a cluster.",
    )


def _add_commands(parser: CommandParser) -> None:
    from plugbay.cli import pod_arguments as arguments

    commands = add_commands(parser, dest="pod_command")
    for add in (
        arguments.add_run,
        arguments.add_apply,
        arguments.add_get,
        arguments.add_describe,
        arguments.add_wait,
        arguments.add_exec,
        arguments.add_logs,
        arguments.add_delete,
    ):
        add_root(add(commands))
    add_aliases(commands, _ALIASES)


def run(args: argparse.Namespace) -> int:
    # Each command is imported when it is wanted: --help and the others do not pay for it.
    match args.pod_command:
        case "run":
            from plugbay.cli.pod_run import run_pods

            return run_pods(args)
        case "apply":
            from plugbay.cli.pod_apply import apply_pods

            return apply_pods(args)
        case "get":
            from plugbay.cli.pod_get import get_pods

            return get_pods(args)
        case "describe":
            from plugbay.cli.pod_get import describe_pods

            return describe_pods(args)
        case "wait":
            from plugbay.cli.pod_wait import wait_for_pods

            return wait_for_pods(args)
        case "exec":
            from plugbay.cli.pod_streams import exec_in_pod

            return exec_in_pod(args)
        case "logs":
            from plugbay.cli.pod_streams import show_logs

            return show_logs(args)
        case "delete":
            from plugbay.cli.pod_delete import delete_pods

            return delete_pods(args)
        case other:
            raise AssertionError(other)
