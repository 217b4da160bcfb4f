"""``plugbay pod delete``: stop pods and forget them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from contextlib import nullcontext

from plugbay.cli.arguments.names import pod_name
from plugbay.cli.arguments.options import add_root, add_selector
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.roots import chosen_root
from plugbay.cli.kubectl.client import NOT_FOUND, NodeClient, WatchEvent, pod_path, pods_path, selecting
from plugbay.cli.kubectl.listing import show_nothing_found
from plugbay.cli.pod.options import add_filename, add_manifest_namespace
from plugbay.cli.printing.output import show, show_error
from plugbay.cli.printing.progress import few, telling
from plugbay.documents import Json
from plugbay.errors import RequestRefused, UsageError, quote
from plugbay.printers import v1
from plugbay.values import dataclass


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Stop pods, wait until they have ended, and forget them.",
        examples=("plugbay pod delete web", "plugbay pod delete -f pods/ --now", "plugbay pod delete -l app=web"),
        run=delete_pods,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", type=pod_name, help="the pods")
    parser.add_argument("--all", action="store_true", help="all pods of the namespace")
    add_selector(parser)
    add_filename(parser)
    parser.add_argument(
        "--grace-period",
        type=int,
        metavar="SECONDS",
        help="time to stop by itself (default: the pod's own); 0 without --force is taken as 1",
    )
    parser.add_argument("--now", action="store_true", help="the same as --grace-period=1")
    parser.add_argument("--force", action="store_true", help="kill at once; the same with --grace-period=0")
    parser.add_argument(
        "--wait",
        nargs="?",
        choices=("true", "false"),
        default="true",
        const="true",
        help="wait until they are gone (default: true)",
    )
    parser.add_argument("--ignore-not-found", action="store_true", help="a pod that is not there is not an error")
    add_manifest_namespace(parser)
    add_root(parser)


@dataclass(frozen=True, slots=True)
class _PodKey:
    namespace: str
    name: str


def delete_pods(args: argparse.Namespace) -> int:
    _check(args)
    wanted = _from_manifests(args) if args.filename else [_PodKey(_namespace(args), name) for name in args.names]
    client = NodeClient(chosen_root(args))
    if args.all or args.selector:
        namespace = _namespace(args)
        found = v1.objects(client.get(pods_path(namespace), selecting(args.selector)), "items")
        wanted = [_PodKey(namespace, v1.name(pod)) for pod in found]
    if not wanted:
        show_nothing_found(_namespace(args))
        return 0
    # The watch begins before anything is deleted: an end that comes at once is not missed.
    with client.watch(_watched(wanted)) if args.wait == "true" else nullcontext() as changes:
        deleted, failed = _delete(client, args, wanted)
        if changes is not None and deleted:
            with telling(lambda: f"waiting for the end of {few(list(deleted.values()))}"):
                _wait(changes, deleted)
    return int(failed)


def _wait(changes: Iterator[WatchEvent], left: dict[str, str]) -> None:
    for change in changes:
        if change.type == "DELETED":
            left.pop(v1.uid(change.object), None)
        if not left:
            return


def _from_manifests(args: argparse.Namespace) -> list[_PodKey]:
    # Imported here: names alone need no YAML.
    from plugbay.cli.kubectl.manifests import load_manifests, placed
    from plugbay.manifest import Strictness

    # Unknown fields change nothing about which pod is meant.
    loaded, _ = load_manifests(args.filename, mode=Strictness.LENIENT)
    pods = [placed(pod, args.namespace) for pod in loaded]
    nameless = next((pod for pod in pods if not v1.name(pod)), None)
    if nameless is not None:
        base = quote(v1.text(nameless, "metadata", "generateName"))
        raise UsageError(f"a pod with generateName {base} cannot be deleted by its manifest; name the pod itself")
    return [_PodKey(v1.namespace(pod), v1.name(pod)) for pod in pods]


def _watched(wanted: Iterable[_PodKey]) -> str:
    namespaces = {pod.namespace for pod in wanted}
    return pods_path(namespaces.pop() if len(namespaces) == 1 else None)


def _delete(client: NodeClient, args: argparse.Namespace, wanted: Iterable[_PodKey]) -> tuple[dict[str, str], bool]:
    """The pods that are ending now by their UIDs, and whether one could not be deleted."""
    deleted: dict[str, str] = {}
    failed = False
    for pod in dict.fromkeys(wanted):
        try:
            ending = client.delete(pod_path(pod.namespace, pod.name), _query(args))
        except RequestRefused as error:
            # With --all and -l another command may have been faster.
            if error.reason == NOT_FOUND and (args.all or args.selector or args.ignore_not_found):
                continue
            show_error(error)
            failed = True
            continue
        show(f"pod {quote(pod.name)} {'force ' if args.force else ''}deleted\n")
        deleted[v1.uid(ending)] = _named(ending)
    return deleted, failed


def _named(pod: Json) -> str:
    """The pod's name and the time it has to end, for a user who waits."""
    grace_s = v1.number(pod, "metadata", "deletionGracePeriodSeconds")
    return f"pod/{v1.name(pod)}" + (f" (it has {grace_s} s)" if grace_s else "")


def _query(args: argparse.Namespace) -> dict[str, str]:
    """The query with the grace period: 0 without --force is taken as a second, as with kubectl.

    Source: kubectl 1.36 ``pkg/cmd/delete/delete.go``, ``Complete``.
    """
    if args.force:
        grace_s = 0
    elif args.now or args.grace_period == 0:
        grace_s = 1
    else:
        grace_s = args.grace_period
    return {} if grace_s is None or grace_s < 0 else {"gracePeriodSeconds": str(grace_s)}


def _namespace(args: argparse.Namespace) -> str:
    return args.namespace or "default"


def _check(args: argparse.Namespace) -> None:
    grace_s = -1 if args.grace_period is None else args.grace_period
    if args.now and (args.force or grace_s >= 0):
        raise UsageError("--now is a grace period of its own; say it without --grace-period and --force")
    if args.force and grace_s > 0:
        raise UsageError(f"--force kills at once; it cannot be said together with --grace-period={grace_s}")
    given = [bool(args.names), args.all, bool(args.selector), bool(args.filename)]
    if not any(given):
        raise UsageError("name the pods to delete, or say --all, -l SELECTOR or -f FILE")
    if given.count(True) > 1:
        raise UsageError("name the pods to delete, or say --all, -l SELECTOR or -f FILE: one of the four")
