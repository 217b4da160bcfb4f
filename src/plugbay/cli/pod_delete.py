"""``plugbay pod delete``."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from typing import Final

from plugbay.cli import v1
from plugbay.cli.client import NodeClient, pod_path, pods_path
from plugbay.cli.listing import show_nothing_found
from plugbay.cli.output import show, show_error
from plugbay.cli.roots import chosen_root
from plugbay.errors import RequestRefused, UsageError, quote

_NOT_FOUND: Final = "NotFound"


def delete_pods(args: argparse.Namespace) -> int:
    _check(args)
    client = NodeClient(chosen_root(args))
    pods = pods_path(args.namespace)
    names = [v1.name(pod) for pod in v1.objects(client.get(pods), "items")] if args.all else args.names
    if not names:
        show_nothing_found(args.namespace)
        return 0
    # The watch begins before anything is deleted: an end that comes at once is not missed.
    with client.watch(pods) if args.wait == "true" else nullcontext() as changes:
        deleted, failed = _delete(client, args, names)
        if changes is not None and deleted:
            for change in changes:
                if change.type == "DELETED":
                    deleted.discard(v1.uid(change.object))
                if not deleted:
                    break
    return int(failed)


def _delete(client: NodeClient, args: argparse.Namespace, names: list[str]) -> tuple[set[str], bool]:
    """The UIDs of the pods that are ending now, and whether one could not be deleted."""
    deleted: set[str] = set()
    failed = False
    for name in dict.fromkeys(names):
        try:
            pod = client.delete(pod_path(args.namespace, name), _query(args))
        except RequestRefused as error:
            # With --all somebody else may have been faster.
            if error.reason == _NOT_FOUND and (args.all or args.ignore_not_found):
                continue
            show_error(error)
            failed = True
            continue
        show(f"pod {quote(name)} deleted\n")
        deleted.add(v1.uid(pod))
    return deleted, failed


def _query(args: argparse.Namespace) -> dict[str, str]:
    grace_s = 1 if args.now else args.grace_period
    return {} if grace_s is None or grace_s < 0 else {"gracePeriodSeconds": str(grace_s)}


def _check(args: argparse.Namespace) -> None:
    if args.all and args.names:
        raise UsageError("name the pods to delete or say --all, not both")
    if not args.all and not args.names:
        raise UsageError("name the pods to delete, or say --all")
