"""``plugbay podresources``: which containers hold which devices, on any kubelet."""

from __future__ import annotations

import argparse
import asyncio
import stat
from pathlib import Path

from plugbay.cli.arguments.options import add_kubelet_root, path_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.roots import chosen_kubelet_root
from plugbay.cli.kubectl.forms import Form, object_text
from plugbay.cli.printing.output import show, show_note
from plugbay.cli.printing.table import Columns
from plugbay.cli.see.kubelet.podresources_rows import HEADER, WIDE_HEADER, as_json, rows, wide_rows
from plugbay.errors import PathUnusable, RpcFailed
from plugbay.kubelet.paths import KubeletPaths
from plugbay.kubelet.podresources import PodResourcesClient
from plugbay.model.podresources import PodResources


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Show what a kubelet, or `plugbay node up`, tells monitors over its PodResources socket. "
        "The kubelet does not report devices of init containers. WARNING: a stock kubelet that is asked frees "
        "the devices of pods that have ended. If it waits for an Allocate of a plugin in this moment, it may give the "
        "device of that Allocate to a second pod: do not ask it in a loop, nor while a plugin hangs. "
        "`plugbay checkpoint show` shows the same without asking, and `plugbay node up` can be asked at any time.",
        examples=("plugbay podresources", "plugbay podresources --root /var/lib/kubelet -o json"),
        run=list_pod_resources,
    )
    parser.add_argument(
        "--socket",
        metavar="PATH",
        type=path_of,
        help="the socket (default: pod-resources/kubelet.sock below --root)",
    )
    parser.add_argument("-o", "--output", choices=("wide", "yaml", "json"), default="", help="another form of output")
    add_kubelet_root(parser)


def list_pod_resources(args: argparse.Namespace) -> int:
    pods = asyncio.run(_ask(_chosen_socket(args)))
    form = Form(args.output)
    if not form.is_table:
        show(object_text(as_json(pods), form))
        return 0
    header, lines = (WIDE_HEADER, list(wide_rows(pods))) if form is Form.WIDE else (HEADER, list(rows(pods)))
    if lines:
        show(Columns(header).table(lines))
    else:
        show_note("No devices are held.")
    return 0


def _chosen_socket(args: argparse.Namespace) -> Path:
    if args.socket is not None:
        return Path(args.socket).absolute()
    return KubeletPaths(chosen_kubelet_root(args).path).pod_resources_socket


async def _ask(socket: Path) -> tuple[PodResources, ...]:
    try:
        found = await asyncio.to_thread(socket.stat)
    except OSError as error:
        raise PathUnusable(str(socket), f"no PodResources socket here ({error.strerror})") from error
    if not stat.S_ISSOCK(found.st_mode):
        raise PathUnusable(str(socket), "no PodResources socket here (Not a socket)")
    async with PodResourcesClient(socket) as client:
        try:
            return await client.list()
        except RpcFailed as error:
            raise PathUnusable(str(socket), f"cannot be asked for pods: {error}") from error
