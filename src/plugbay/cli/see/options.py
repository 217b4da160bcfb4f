"""Options of the commands that look at a node, and the places they choose."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from plugbay.cli.arguments.options import add_kubelet_root, directory_of, duration_s
from plugbay.cli.arguments.roots import chosen_kubelet_root, chosen_root
from plugbay.errors import UsageError
from plugbay.kubelet.paths import STOCK_ROOT
from plugbay.observe.joining.node import join
from plugbay.observe.places import HOST, NodePlaces, is_own_root, places_of, seen_below
from plugbay.observe.reading.node import read_node
from plugbay.observe.reading.podresources import AllowedCalls
from plugbay.observe.view import ObservedNode
from plugbay.ops.listening import parse_address

_LONGEST_DEADLINE_S: Final = 3600.0


def add_place_options(parser: argparse.ArgumentParser, *, by_default: str) -> None:
    """The node, what it is asked, and for how long.

    Args:
        by_default: what the command asks without ``--ask``, for its help.
    """
    parser.add_argument(
        "--ask",
        choices=[each.value for each in AllowedCalls],
        help="the calls to the kubelet: list is all of them, and a stock kubelet that is asked for a list in the "
        "middle of an Allocate may give a device twice; harmless are GetAllocatableResources and Get; nothing reads "
        f"files only (default: {by_default}; `plugbay node up` can be asked for lists at any time, and is)",
    )
    parser.add_argument(
        "--deadline",
        type=duration_s,
        default="5s",
        metavar="TIME",
        help="how long the kubelet may take for an answer (default: %(default)s)",
    )
    parser.add_argument(
        "--status",
        metavar="ADDR",
        action="append",
        default=[],
        help="the address of `plugbay serve --metrics ADDR`, for reasons and host paths; may be repeated",
    )
    add_host_options(parser)


def add_host_options(parser: argparse.ArgumentParser) -> None:
    """The kubelet's root, and where the machine's file system is."""
    parser.add_argument(
        "--host",
        "--host-root",
        metavar="DIR",
        type=directory_of,
        default="/",
        help="where the node's / is mounted, in a pod; --root is a path of the node then, and by default "
        "/var/lib/kubelet (default: %(default)s)",
    )
    add_kubelet_root(parser)


def chosen_host(args: argparse.Namespace) -> Path:
    """The place at which the node's ``/`` is; absolute.

    Raises:
        UsageError: there is nothing.
    """
    if not os.path.isdir(args.host):
        raise UsageError(f"--host: {args.host} is not a directory; it wants the place at which the node's / is mounted")
    return Path(args.host).absolute()


def root_on_host(args: argparse.Namespace, host: Path) -> Path:
    """The kubelet's root as the node at ``host`` names it; ``--root`` may be given with ``host`` before it."""
    named = chosen_root(args) if args.root is not None or args.node else STOCK_ROOT
    return Path("/", named.relative_to(host)) if named.is_relative_to(host) else named


def chosen_places(args: argparse.Namespace) -> NodePlaces:
    """The places that the arguments name.

    Raises:
        UsageError: the host is not mounted where they say.
    """
    host = chosen_host(args)
    if host == HOST:
        root = chosen_kubelet_root(args).path
    else:
        named = root_on_host(args, host)
        root = seen_below(host, named)
        if not root.is_dir() and named.is_dir():  # a pod may mount the kubelet's directory at its own path only
            root = named
    pages = tuple(map(parse_address, args.status))
    return places_of(root, host=host, is_own=is_own_root(root), status_pages=pages)


def chosen_reading(
    args: argparse.Namespace, places: NodePlaces, by_default: AllowedCalls, *, pod: tuple[str, str] | None = None
) -> Callable[[], Coroutine[None, None, ObservedNode]]:
    """A function that reads the node as the arguments say.

    Args:
        by_default: what to ask without ``--ask``.

    Raises:
        UsageError: a deadline that no answer could keep.
    """
    if not 0 < args.deadline <= _LONGEST_DEADLINE_S:
        raise UsageError("--deadline wants a time above 0, and an hour at most")
    asking = AllowedCalls(args.ask) if args.ask else by_default

    async def read() -> ObservedNode:
        now = datetime.now(UTC)
        evidence = await read_node(places, now=now, asking=asking, pod=pod, deadline_s=args.deadline)
        return await asyncio.to_thread(join, evidence)  # 10,000 devices take a tenth of a second

    return read
