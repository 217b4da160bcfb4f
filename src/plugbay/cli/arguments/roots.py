"""Find the node or kubelet that a command talks to."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plugbay.node.roots import KubeletRoot


def chosen_root(args: argparse.Namespace) -> Path:
    """``--root``, else the caller's private root; absolute."""
    if args.root is not None:
        return Path(args.root).absolute()
    # Imported here, because what is asked for by --help needs no root.
    from plugbay.node.roots import private_root

    return private_root(os.environ, os.geteuid()).absolute()


def root_option(args: argparse.Namespace) -> str:
    """The end of a command line that is shown as a hint: `` --root DIR`` if this one has it, else empty."""
    return "" if args.root is None else f" --root {shlex.quote(args.root)}"


def chosen_kubelet_root(args: argparse.Namespace) -> KubeletRoot:
    """``--root`` or ``--node``, else where a kubelet lives, stock or our own; absolute.

    Raises:
        UsageError: a stock kubelet and a node of ours are both here, and no option says which is meant.
    """
    from plugbay.cli.arguments.starting import is_node_up
    from plugbay.node.roots import KubeletRoot, kubelet_root

    if args.root is not None:
        return KubeletRoot(chosen_root(args), "--root says so")
    if args.node:
        return KubeletRoot(chosen_root(args), "--node says so")
    found = kubelet_root(os.environ, os.geteuid(), is_node_up=is_node_up)
    return KubeletRoot(found.path.absolute(), found.why)
