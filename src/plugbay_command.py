"""The ``plugbay`` command; beside the package, because Ctrl-C may come while that is imported, which takes a while."""

from __future__ import annotations

from typing import Final

_INTERRUPTED: Final = 130
"""What a shell reports for a program that died of SIGINT; `plugbay.cli.main` says so too."""


def run() -> int:
    """Run the command that the process's arguments name; returns the exit code."""
    try:
        from plugbay.cli import main

        return main.run()
    except KeyboardInterrupt:
        return _INTERRUPTED
