"""The call at the end of a plugin's file that serves the file's plugins; nothing heavy is imported before."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugbay.sdk.author.plugin import DevicePlugin
    from plugbay.sdk.author.resources import PluginSource


def run(*plugins: DevicePlugin | PluginSource, argv: Sequence[str] | None = None) -> None:
    """Serve ``plugins`` as ``plugbay serve`` does, with its options and its logs, until SIGTERM, SIGINT or SIGQUIT.

    For ``if __name__ == "__main__"`` in a plugin's own file, which is a command then: it has ``--help``, ``--root``,
    ``--node``, ``--metrics``, ``--release`` and all others. With ``--config FILE`` it serves what the config file says
    in place of ``plugins``.

    Args:
        argv: the options; None for those that the file was called with.

    Raises:
        SystemExit: it did not end well; a sentence on standard error says why.
    """
    from plugbay.cli.printing.outcome import outcome
    from plugbay.ops.late_modules import fill_late

    fill_late()
    given = sys.argv[1:] if argv is None else argv
    if code := outcome(lambda: _parse(plugins, given)):
        raise SystemExit(code)


def _parse(plugins: Sequence[DevicePlugin | PluginSource], argv: Sequence[str]) -> argparse.Namespace:
    from plugbay.cli.arguments.parser import CommandParser
    from plugbay.cli.arguments.targets.loading import add_config
    from plugbay.cli.plugins.serve import serve
    from plugbay.cli.plugins.serve_options import add_serve_options

    program = os.path.basename(sys.argv[0])
    parser = CommandParser(prog=program)
    parser.describe("Serve this file's device plugins to a kubelet until SIGTERM or Ctrl-C.", run=serve)
    parser.set_defaults(root=None, targets=[], targets_of=program, plugins=(program, plugins), reload=False)
    add_config(parser)
    add_serve_options(parser)
    return parser.parse_args(argv)
