"""``plugbay pod exec`` and ``plugbay pod logs``: show the output of containers as it comes."""

from __future__ import annotations

import argparse
import math
import sys
from typing import Final

from plugbay.cli.arguments.names import pod_name
from plugbay.cli.arguments.options import add_namespace, add_root, at_least, duration_s
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.roots import chosen_root
from plugbay.cli.kubectl.client import NodeClient, pod_path
from plugbay.cli.printing.output import show_note
from plugbay.documents import Json
from plugbay.errors import UsageError
from plugbay.printers import v1

_LONGEST_S: Final = 999_999_999
"""No log is as old as this: a longer time means all of it."""
_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"


def declare_exec(parser: CommandParser) -> None:
    parser.describe(
        "Run a command in a container, with its environment; exits with the command's exit code.",
        usage="plugbay pod exec NAME [-i] [-t] [-c CONTAINER] [-n NS] -- CMD ...",
        takes_command=True,
        examples=(
            "plugbay pod exec web -- env",
            "plugbay pod exec -it web -- sh",
            "plugbay pod exec -i web -- sh -c 'cat > /tmp/note' < note",
        ),
        run=exec_in_pod,
    )
    parser.add_argument("name", metavar="NAME", type=pod_name, help="the pod")
    parser.add_argument("-i", "--stdin", action="store_true", help="pass standard input on to the command")
    parser.add_argument("-t", "--tty", action="store_true", help="give the command a terminal; with -i")
    parser.add_argument("-c", "--container", metavar="CONTAINER", help="container (default: the first one)")
    add_namespace(parser)
    add_root(parser)


def declare_logs(parser: CommandParser) -> None:
    parser.describe(
        "Show what a container printed, on standard output and standard error.",
        examples=(
            "plugbay pod logs -f web",
            "plugbay pod logs web sidecar",
            "plugbay pod logs --previous --tail 20 web",
        ),
        run=show_logs,
    )
    parser.add_argument("name", metavar="NAME", type=pod_name, help="the pod")
    parser.add_argument("inline", nargs="?", metavar="CONTAINER", help="the same as --container")
    parser.add_argument("-c", "--container", metavar="CONTAINER", help="container (default: the first one)")
    parser.add_argument("-f", "--follow", action="store_true", help="go on as long as the container runs")
    parser.add_argument("--tail", type=at_least(-1), default=-1, metavar="N", help="the last N lines only; -1 is all")
    parser.add_argument(
        "--since",
        type=duration_s,
        default="0",
        metavar="TIME",
        help="only lines that are not older than TIME, such as 5s or 1h30m (default: all)",
    )
    parser.add_argument("--timestamps", action="store_true", help="show the time before each line")
    parser.add_argument(
        "-p", "--previous", action="store_true", help="show the log of the instance before the last restart"
    )
    add_namespace(parser)
    add_root(parser)


def exec_in_pod(args: argparse.Namespace) -> int:
    """Run a command in a container; returns its exit code."""
    if not args.command:
        raise UsageError("say which command to run after --, such as: plugbay pod exec NAME -- env")
    if args.tty and not args.stdin:
        raise UsageError("-t gives the command a terminal only together with -i: say -it")
    try:
        "".join(args.command).encode()
    except UnicodeEncodeError:
        raise UsageError("the words of the command must be UTF-8") from None
    client = NodeClient(chosen_root(args))
    path = pod_path(args.namespace, args.name)
    query = {"container": _container(client.get(path), args.container)}
    terminal = sys.stdin.fileno() if args.tty and sys.stdin.isatty() else None
    if args.tty and terminal is None:
        show_note("Unable to use a TTY - input is not a terminal or the right kind of file")
    query |= {"stdin": "true"} if args.stdin else {}
    query |= {"tty": "true"} if terminal is not None else {}
    with client.exec(f"{path}/exec", query, args.command) as connection:
        # Imported here: its library is an extra.
        from plugbay.cli.kubectl.exec_session import run_session

        ended = run_session(connection, source=sys.stdin.fileno() if args.stdin else None, terminal=terminal)
    if ended.problem:
        show_note(f"error: {ended.problem}")
    if ended.exit_code:
        show_note(f"command terminated with exit code {ended.exit_code}")
    return ended.exit_code


def show_logs(args: argparse.Namespace) -> int:
    if args.since < 0:
        raise UsageError("--since cannot be below zero")
    if args.inline and args.container:
        raise UsageError(f"name the container once: {args.inline}, or --container={args.container}")
    client = NodeClient(chosen_root(args))
    path = pod_path(args.namespace, args.name)
    query = {"container": _container(client.get(path), args.container or args.inline)}
    query |= {"follow": "true"} if args.follow else {}
    query |= {"previous": "true"} if args.previous else {}
    query |= {"timestamps": "true"} if args.timestamps else {}
    query |= {"sinceSeconds": str(math.ceil(min(args.since, _LONGEST_S)))} if args.since else {}
    query |= {"tailLines": str(args.tail)} if args.tail >= 0 else {}
    with client.read(f"{path}/log", query) as chunks:
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
    return 0


def _container(pod: Json, asked: str | None) -> str:
    """The container asked for, else the pod's default one, which is printed if the pod has several.

    Source: kubectl 1.36 ``pkg/cmd/util/podcmd/podcmd.go``, ``FindOrDefaultContainerByName``.
    """
    if asked is not None:
        return asked
    containers = [v1.text(each, "name") for each in v1.objects(pod, "spec", "containers")]
    inits = [v1.text(each, "name") for each in v1.objects(pod, "spec", "initContainers")]
    default = v1.text(pod, "metadata", "annotations", _DEFAULT_CONTAINER)
    if default in [*containers, *inits]:
        return default
    if len(containers) + len(inits) > 1:
        others = ", ".join([*containers, *(f"{name} (init)" for name in inits)])
        show_note(f'Defaulted container "{containers[0]}" out of: {others}')
    return containers[0]
