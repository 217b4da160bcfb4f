"""``plugbay node drain``, ``node cordon`` and ``node uncordon``.

Source of the words: kubectl 1.36 ``pkg/cmd/drain/drain.go``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import suppress

from plugbay.cli import v1
from plugbay.cli.client import CORDON_PATH, DRAIN_PATH, UNCORDON_PATH, NodeClient, WatchEvent, nodes_path, pods_path
from plugbay.cli.output import show, show_error
from plugbay.cli.progress import few, telling
from plugbay.cli.roots import chosen_root
from plugbay.cli.rows import is_unschedulable
from plugbay.ops.http_client import TimeIsUp


def drain_node(args: argparse.Namespace) -> int:
    """Returns 1 when pods are still there after the time given."""
    client = NodeClient(chosen_root(args))
    was_cordoned = is_unschedulable(client.get(nodes_path(args.name)))
    for_s = args.timeout if args.timeout > 0 else None
    # The watch begins before anything is stopped: an end that comes at once is not missed.
    with client.watch(pods_path(None), for_s=for_s) as changes:
        before = _pods(client)
        grace_s = args.grace_period
        client.create(DRAIN_PATH, {"gracePeriodSeconds": grace_s if grace_s is None or grace_s >= 0 else None})
        show(f"node/{args.name} {'already cordoned' if was_cordoned else 'cordoned'}\n")
        left = _evicted(before, _pods(client))
        for pod in left.values():
            show(f"evicting pod {v1.namespace(pod)}/{v1.name(pod)}\n")
        _wait(changes, left)
    for pod in left.values():
        show_error(f"pod {v1.namespace(pod)}/{v1.name(pod)} has not ended within {args.timeout:g} s")
    if left:
        return 1
    show(f"node/{args.name} drained\n")
    return 0


def cordon_node(args: argparse.Namespace) -> int:
    client = NodeClient(chosen_root(args))
    was_cordoned = is_unschedulable(client.get(nodes_path(args.name)))
    client.create(CORDON_PATH, {})
    show(f"node/{args.name} {'already cordoned' if was_cordoned else 'cordoned'}\n")
    return 0


def uncordon_node(args: argparse.Namespace) -> int:
    client = NodeClient(chosen_root(args))
    was_cordoned = is_unschedulable(client.get(nodes_path(args.name)))
    client.create(UNCORDON_PATH, {})
    show(f"node/{args.name} {'uncordoned' if was_cordoned else 'already uncordoned'}\n")
    return 0


def _pods(client: NodeClient) -> dict[str, v1.Json]:
    return {v1.uid(pod): pod for pod in v1.objects(client.get(pods_path(None)), "items")}


def _evicted(before: dict[str, v1.Json], after: dict[str, v1.Json]) -> dict[str, v1.Json]:
    """The pods that are ending or gone; the node leaves alone those that come from its manifest directory."""
    return {uid: pod for uid, pod in before.items() if v1.at(after.get(uid, _GONE), "metadata", "deletionTimestamp")}


_GONE: v1.Json = {"metadata": {"deletionTimestamp": "past"}}


def _wait(changes: Iterator[WatchEvent], left: dict[str, v1.Json]) -> None:
    """Until all of ``left`` have ended, which are taken out of it, or the time is up."""
    with telling(lambda: f"waiting for the end of {few([f'pod/{v1.name(pod)}' for pod in tuple(left.values())])}"):
        with suppress(TimeIsUp):
            while left:
                change = next(changes)
                if change.type == "DELETED" and (pod := left.pop(v1.uid(change.object), None)):
                    show(f"pod/{v1.name(pod)} evicted\n")
