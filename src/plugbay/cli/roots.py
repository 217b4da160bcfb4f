"""Which node or kubelet a command talks to."""

from __future__ import annotations

import argparse
import os
from pathlib import Path


def chosen_root(args: argparse.Namespace) -> Path:
    """``--root``, else the caller's private root; absolute."""
    if args.root is not None:
        return Path(args.root).absolute()
    # Imported here, because what is asked for by --help needs no root.
    from plugbay.kubelet.roots import private_root

    return private_root(os.environ, os.geteuid()).absolute()


def chosen_kubelet_root(args: argparse.Namespace) -> Path:
    """``--root``, else where a kubelet lives, stock or our own; absolute."""
    if args.root is not None:
        return Path(args.root).absolute()
    from plugbay.kubelet.roots import default_root

    return default_root(os.environ, os.geteuid()).absolute()
