"""``plugbay pod wait``: until pods are as they should be.

Source: kubectl 1.36 ``pkg/cmd/wait/wait.go``; unlike there, all pods are waited for at the same time.
"""

from __future__ import annotations

import argparse

from plugbay.cli import v1
from plugbay.cli.client import NodeClient, pod_path, pods_path, selecting
from plugbay.cli.output import show_error
from plugbay.cli.pod_status import state_text
from plugbay.cli.roots import chosen_root
from plugbay.cli.wait_conditions import Deleted, WaitCondition, parse_condition
from plugbay.cli.waiting import wait_for
from plugbay.errors import PodNotFound, UsageError


def wait_for_pods(args: argparse.Namespace) -> int:
    """Returns 1 when a pod is missing or did not come so far in time."""
    _check(args)
    condition = parse_condition(args.condition)
    client = NodeClient(chosen_root(args))
    # The watch begins before anything is looked at: no change in between is missed.
    with client.watch(pods_path(args.namespace), for_s=args.timeout if args.timeout >= 0 else None) as changes:
        pods, missing = _asked_for(client, args)
        if isinstance(condition, Deleted):
            missing = []  # that is what was waited for
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


def _asked_for(client: NodeClient, args: argparse.Namespace) -> tuple[dict[str, v1.Json], list[str]]:
    """The pods by name, and the names of those that are not there."""
    if not args.names:
        found = client.get(pods_path(args.namespace), selecting(args.selector))
        return {v1.name(pod): pod for pod in v1.objects(found, "items")}, []
    asked = {name: client.find(pod_path(args.namespace, name)) for name in args.names}
    there = {name: pod for name, pod in asked.items() if pod is not None}
    return there, [name for name in asked if name not in there]


def _state(pod: v1.Json, condition: WaitCondition) -> str:
    """What was last seen of a pod that was not in time."""
    return "; ".join(filter(None, (condition.seen(pod) if pod else "", state_text(pod))))
