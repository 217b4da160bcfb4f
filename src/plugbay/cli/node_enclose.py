"""``plugbay node enclose``: a program to which the node's root is the stock kubelet's."""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path
from typing import Final

from plugbay.cli.client import NodeClient
from plugbay.cli.output import show_error
from plugbay.cli.roots import chosen_root
from plugbay.cli.starting import wait_for_start
from plugbay.errors import NodeUnreachable, PathUnusable, UsageError
from plugbay.kernel.private_mounts import enter_private_mounts, show_at
from plugbay.kubelet.paths import KubeletPaths
from plugbay.kubelet.roots import STOCK_ROOT

_PROC: Final = Path("/proc")
_START_S: Final = 30.0
_CANNOT_RUN: Final = 126
_NOT_FOUND: Final = 127
_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)


def enclose(args: argparse.Namespace) -> int:
    """Become the program. Returns only if it cannot be run, with the exit code that a shell has for that."""
    if not args.command:
        raise UsageError("say what to run after --, such as: plugbay node enclose -- ./my-plugin")
    root = chosen_root(args)
    _wait_for_node(root)
    try:
        enter_private_mounts(proc_root=_PROC)
        show_at(root, STOCK_ROOT, proc_root=_PROC)
    except OSError as error:
        problem = f"cannot be mounted in a namespace of its own ({error.strerror})"
        raise PathUnusable(str(STOCK_ROOT), f"{problem}; it takes root, or user namespaces for this user") from error
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(args.command[0], args.command)
    except OSError as error:
        show_error(f"{args.command[0]}: {error.strerror}")
        return _NOT_FOUND if isinstance(error, FileNotFoundError) else _CANNOT_RUN


def _wait_for_node(root: Path) -> None:
    """Its root has to be there; a plugin waits for the rest itself."""
    try:
        wait_for_start(root, for_s=_START_S)
    except TimeoutError:
        raise NodeUnreachable(str(NodeClient(root).socket), f"it is still starting after {_START_S:g} s") from None
    if not KubeletPaths(root).device_plugins.is_dir():
        raise NodeUnreachable(str(NodeClient(root).socket), "no node has been here yet")
