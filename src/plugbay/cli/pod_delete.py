"""``plugbay pod delete``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

from plugbay.cli import v1
from plugbay.cli.client import NOT_FOUND, NodeClient, WatchEvent, pod_path, pods_path, selecting
from plugbay.cli.listing import show_nothing_found
from plugbay.cli.output import show, show_error
from plugbay.cli.progress import few, telling
from plugbay.cli.roots import chosen_root
from plugbay.errors import RequestRefused, UsageError, quote


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
    from plugbay.cli.manifests import load_manifests, placed
    from plugbay.node.manifest import Strictness

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


def _named(pod: v1.Json) -> str:
    """For people who wait for its end: how long that may take."""
    grace_s = v1.number(pod, "metadata", "deletionGracePeriodSeconds")
    return f"pod/{v1.name(pod)}" + (f" (it has {grace_s} s)" if grace_s else "")


def _query(args: argparse.Namespace) -> dict[str, str]:
    """No time at all, without --force, is taken as a second, as with kubectl.

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
