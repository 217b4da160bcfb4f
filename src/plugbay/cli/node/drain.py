"""``plugbay node drain``, ``node cordon`` and ``node uncordon``.

Source of the words: kubectl 1.36 ``pkg/cmd/drain/drain.go``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import suppress

from plugbay.cli.arguments.names import node_name
from plugbay.cli.arguments.options import add_root, duration_s
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.roots import chosen_root
from plugbay.cli.kubectl.client import (
    CORDON_PATH,
    DRAIN_PATH,
    UNCORDON_PATH,
    NodeClient,
    WatchEvent,
    nodes_path,
    pods_path,
)
from plugbay.cli.printing.output import show, show_error
from plugbay.cli.printing.progress import few, telling
from plugbay.documents import Json
from plugbay.ops.http_client import TimeIsUp
from plugbay.printers import v1
from plugbay.printers.tables import is_unschedulable


def declare_drain(parser: CommandParser) -> None:
    parser.describe(
        "Stop all pods and forget them, and take no new ones before `plugbay node uncordon`. Pods from "
        "the node's manifest directory stay.",
        examples=('plugbay node drain "$(hostname)" --timeout 2m',),
        run=drain_node,
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
    add_root(parser)


def declare_cordon(parser: CommandParser) -> None:
    parser.describe(
        "Take no new pods before `plugbay node uncordon`; its pods go on.",
        run=cordon_node,
    )
    _add_node(parser)
    add_root(parser)


def declare_uncordon(parser: CommandParser) -> None:
    parser.describe(
        "Take pods again, after `plugbay node cordon` or `plugbay node drain`.",
        run=uncordon_node,
    )
    _add_node(parser)
    add_root(parser)


def _add_node(parser: CommandParser) -> None:
    parser.add_argument("name", metavar="NAME", type=node_name, help="the node's name, as `plugbay node get` shows it")


def drain_node(args: argparse.Namespace) -> int:
    """Stop all pods; returns 1 if some are still there after the time given."""
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


def _pods(client: NodeClient) -> dict[str, Json]:
    return {v1.uid(pod): pod for pod in v1.objects(client.get(pods_path(None)), "items")}


def _evicted(before: dict[str, Json], after: dict[str, Json]) -> dict[str, Json]:
    """The pods that are ending or gone; the node leaves alone those that come from its manifest directory."""
    return {uid: pod for uid, pod in before.items() if v1.at(after.get(uid, _GONE), "metadata", "deletionTimestamp")}


_GONE: Json = {"metadata": {"deletionTimestamp": "past"}}


def _wait(changes: Iterator[WatchEvent], left: dict[str, Json]) -> None:
    """Wait until all of ``left`` have ended, which are removed from it, or the time is up."""
    with telling(lambda: f"waiting for the end of {few([f'pod/{v1.name(pod)}' for pod in tuple(left.values())])}"):
        with suppress(TimeIsUp):
            while left:
                change = next(changes)
                if change.type == "DELETED" and (pod := left.pop(v1.uid(change.object), None)):
                    show(f"pod/{v1.name(pod)} evicted\n")
