"""``plugbay pod``: run pods on this machine's node and look after them."""

from __future__ import annotations

import argparse

from plugbay.cli.parsing import (
    CommandParser,
    Subparsers,
    add_all_namespaces,
    add_commands,
    add_namespace,
    add_output,
    add_root,
)


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("pod", help="run pods and look after them")
    commands = add_commands(parser, dest="pod_command")
    for add in (_add_run, _add_get, _add_describe, _add_exec, _add_logs, _add_delete):
        add_root(add(commands))


def run(args: argparse.Namespace) -> int:
    # Each command is imported when it is wanted: --help and the others do not pay for it.
    match args.pod_command:
        case "run":
            from plugbay.cli.pod_run import run_pods

            return run_pods(args)
        case "get":
            from plugbay.cli.pod_get import get_pods

            return get_pods(args)
        case "describe":
            from plugbay.cli.pod_get import describe_pods

            return describe_pods(args)
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


def _add_run(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser(
        "run",
        help="create pods from a manifest, or one from a command line",
        usage="plugbay pod run -f FILE|- [options]\n"
        "       plugbay pod run NAME [--resource R=N] [--env K=V] [options] -- CMD ...",
        takes_command=True,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="name of a pod with the one container CMD")
    parser.add_argument(
        "-f", "--filename", action="append", default=[], metavar="FILE", help="manifest with pods; - is standard input"
    )
    parser.add_argument(
        "--resource",
        action="append",
        default=[],
        metavar="R=N",
        help="give the container N of resource R, such as example.com/gopher=1; may be repeated",
    )
    parser.add_argument("--env", action="append", default=[], metavar="K=V", help="set a variable; may be repeated")
    parser.add_argument(
        "--restart",
        choices=("Always", "OnFailure", "Never"),
        help="restart policy (default: Always); not with -f",
    )
    parser.add_argument(
        "--lenient", action="store_true", help="warn about fields that are unknown or unsupported, and go on"
    )
    parser.add_argument("--dry-run", action="store_true", help="check, and create nothing")
    parser.add_argument("-n", "--namespace", metavar="NS", help="namespace (default: the manifest's, else default)")
    add_output(parser)
    return parser


def _add_get(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser("get", help="list pods")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    parser.add_argument("-w", "--watch", action="store_true", help="go on with every change")
    add_namespace(parser)
    add_all_namespaces(parser)
    add_output(parser)
    return parser


def _add_describe(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser("describe", help="show all about pods: devices, states, events")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    add_namespace(parser)
    add_all_namespaces(parser)
    return parser


def _add_exec(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser(
        "exec",
        help="run a command beside a container, with its environment",
        usage="plugbay pod exec NAME [-c CONTAINER] [-n NS] -- CMD ...",
        takes_command=True,
    )
    parser.add_argument("name", metavar="NAME")
    _add_container(parser)
    add_namespace(parser)
    return parser


def _add_logs(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser("logs", help="show what a container printed")
    parser.add_argument("name", metavar="NAME")
    _add_container(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on as long as the container runs")
    parser.add_argument("--tail", type=int, default=-1, metavar="N", help="the last N lines only")
    parser.add_argument("-p", "--previous", action="store_true", help="of the instance before the last restart")
    add_namespace(parser)
    return parser


def _add_container(parser: CommandParser) -> None:
    parser.add_argument("-c", "--container", metavar="CONTAINER", help="container (default: the first one)")


def _add_delete(commands: Subparsers) -> CommandParser:
    parser = commands.add_parser("delete", help="stop pods and forget them")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--all", action="store_true", help="all pods of the namespace")
    grace = parser.add_mutually_exclusive_group()
    grace.add_argument(
        "--grace-period", type=int, metavar="SECONDS", help="time to stop by itself (default: the pod's own)"
    )
    grace.add_argument("--now", action="store_true", help="the same as --grace-period=1")
    parser.add_argument(
        "--wait",
        nargs="?",
        choices=("true", "false"),
        default="true",
        const="true",
        help="wait until they are gone (default: true)",
    )
    parser.add_argument("--ignore-not-found", action="store_true", help="a pod that is not there is no error")
    add_namespace(parser)
    return parser
