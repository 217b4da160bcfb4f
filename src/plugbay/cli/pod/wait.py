"""``plugbay pod wait``: wait until pods meet a condition.

Source: kubectl 1.36 ``pkg/cmd/wait/wait.go``; unlike there, all pods are waited for at the same time.
"""

from __future__ import annotations

import argparse

from plugbay.cli.arguments.names import pod_name
from plugbay.cli.arguments.options import add_namespace, add_root, add_selector, add_timeout
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.roots import chosen_root
from plugbay.cli.kubectl.client import NodeClient, pod_path, pods_path, selecting
from plugbay.cli.kubectl.wait_conditions import Deleted, WaitCondition, parse_condition
from plugbay.cli.kubectl.waiting import wait_for
from plugbay.cli.printing.output import show_error
from plugbay.documents import Json
from plugbay.errors import PodNotFound, UsageError
from plugbay.printers import v1
from plugbay.printers.pod_status import state_text


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Wait until each pod is as --for says; exits with 1 if one is not in time, or not there.",
        examples=(
            "plugbay pod wait --for=condition=Ready web",
            "plugbay pod wait --for=jsonpath='{.status.phase}'=Succeeded job --timeout=5m",
            "plugbay pod wait --for=delete --all",
        ),
        run=wait_for_pods,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", type=pod_name, help="the pods")
    parser.add_argument("--all", action="store_true", help="all pods of the namespace")
    add_selector(parser)
    parser.add_argument(
        "--for",
        dest="condition",
        required=True,
        metavar="WHAT",
        help="condition=NAME[=STATUS] (STATUS is True by default), delete, or jsonpath='{.PATH}'[=VALUE]",
    )
    add_timeout(parser)
    add_namespace(parser)
    add_root(parser)


def wait_for_pods(args: argparse.Namespace) -> int:
    """Wait for pods; returns 1 if one is missing or did not meet the condition in time."""
    _check(args)
    condition = parse_condition(args.condition)
    client = NodeClient(chosen_root(args))
    # The watch begins before anything is looked at: no change in between is missed.
    with client.watch(pods_path(args.namespace), for_s=args.timeout if args.timeout >= 0 else None) as changes:
        pods, missing = _asked_for(client, args)
        if isinstance(condition, Deleted):
            missing = []  # a missing pod is what the command waits for
        elif not pods and not missing:
            show_error("no matching resources found")
            return 1
        for name in missing:
            show_error(PodNotFound(name))
        late = wait_for(changes, pods, condition, kind="pod")
    for name, pod in late.items():
        show_error(f"timed out waiting for the condition on pods/{name}: {_state(pod, condition)}")
    return int(bool(late or missing))


def _check(args: argparse.Namespace) -> None:
    given = [bool(args.names), args.all, bool(args.selector)]
    if given.count(True) > 1:
        raise UsageError("name the pods to wait for, or say --all or -l SELECTOR: one of the three")
    if not any(given):
        raise UsageError("name the pods to wait for, or say --all or -l SELECTOR")


def _asked_for(client: NodeClient, args: argparse.Namespace) -> tuple[dict[str, Json], list[str]]:
    """The pods by name, and the names of those that are not there."""
    if not args.names:
        found = client.get(pods_path(args.namespace), selecting(args.selector))
        return {v1.name(pod): pod for pod in v1.objects(found, "items")}, []
    asked = {name: client.find(pod_path(args.namespace, name)) for name in args.names}
    there = {name: pod for name, pod in asked.items() if pod is not None}
    return there, [name for name in asked if name not in there]


def _state(pod: Json, condition: WaitCondition) -> str:
    """The last known state of a pod that was not in time."""
    return "; ".join(filter(None, (condition.seen(pod) if pod else "", state_text(pod))))
