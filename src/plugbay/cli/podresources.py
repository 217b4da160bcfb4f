"""``plugbay podresources``: who holds what on any kubelet."""

from __future__ import annotations

import argparse

from plugbay.cli.command_parser import Subparsers
from plugbay.cli.parsing import add_kubelet_root, path_of


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "podresources",
        help="show which containers hold which devices, on any kubelet",
        description="Show what a kubelet, or `plugbay node up`, tells monitors over its PodResources socket. "
        "The kubelet does not report devices of init containers. WARNING: a stock kubelet that is asked frees "
        "the devices of pods that have ended. If it waits for an Allocate of a plugin in this moment, it may give the "
        "device of that Allocate to a second pod: do not ask it in a loop, nor while a plugin hangs. "
        "`plugbay checkpoint show` shows the same without asking, and `plugbay node up` can be asked at any time.",
        examples=("plugbay podresources", "plugbay podresources --root /var/lib/kubelet -o json"),
    )
    parser.add_argument(
        "--socket",
        metavar="PATH",
        type=path_of,
        help="the socket (default: pod-resources/kubelet.sock below --root)",
    )
    parser.add_argument("-o", "--output", choices=("wide", "yaml", "json"), default="", help="another form of output")
    add_kubelet_root(parser)


def run(args: argparse.Namespace) -> int:
    # Imported here: --help does not pay for it.
    from plugbay.cli.podresources_list import list_pod_resources

    return list_pod_resources(args)
