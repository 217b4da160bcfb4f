"""Asking a kubelet who holds what, and printing it."""

from __future__ import annotations

import argparse
import asyncio
import stat
from pathlib import Path

from plugbay.cli.output import Form, object_text, show, show_note
from plugbay.cli.podresources_rows import HEADER, WIDE_HEADER, as_json, rows, wide_rows
from plugbay.cli.roots import chosen_kubelet_root
from plugbay.cli.table import Columns
from plugbay.errors import PathUnusable, RpcFailed
from plugbay.kubelet.paths import KubeletPaths
from plugbay.kubelet.podresources import PodResourcesClient
from plugbay.model.podresources import PodResources


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
