"""The ``plugbay`` command; beside the package, because signals may come while that is imported, which takes time."""

from __future__ import annotations

import signal
import sys
from typing import Final

_INTERRUPTED: Final = 130
"""What a shell reports for a program that died of SIGINT; `plugbay.cli.main` says so too."""


class Ended(KeyboardInterrupt):
    """A signal that is to end a lasting command in order came before there was anything to end.

    A KeyboardInterrupt, because asyncio lets those through.
    """


def run() -> int:
    """Run the command that the process's arguments name; returns the exit code."""
    try:
        handle_early_signals(sys.argv[1:])
        from plugbay.cli import main

        return main.run()
    except Ended:
        return 0
    except KeyboardInterrupt:
        return _INTERRUPTED


def handle_early_signals(words: list[str]) -> None:
    """Have the commands that last until a signal end as well as later, until they set handlers of their own."""
    if "serve" in words:
        early = {signal.SIGTERM: _end, signal.SIGINT: _end, signal.SIGHUP: _pass}  # it is about to look anyway
    elif "up" in words:
        early = {signal.SIGTERM: _end, signal.SIGINT: _end, signal.SIGHUP: _end}
    else:
        return
    for number, handler in early.items():
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, handler)


def _end(*_: object) -> None:
    raise Ended


def _pass(*_: object) -> None:
    """Not SIG_IGN, which programs that we start would inherit."""
