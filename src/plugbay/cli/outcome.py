"""How every command ends: each failure is a sentence and an exit code, never a traceback."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import Final

from plugbay.cli.output import discard_stdout, show_error
from plugbay.errors import InvalidManifest, PlugbayError, UsageError
from plugbay_command import Ended

_FAILED: Final = 1
_MISUSED: Final = 2
_INTERRUPTED: Final = 130
_BROKEN_PIPE: Final = 141
"""What a shell reports for a program that died of SIGPIPE, as kubectl does."""


def outcome(parse: Callable[[], argparse.Namespace], act: Callable[[argparse.Namespace], int]) -> int:
    """Do what the arguments say; returns the exit code.

    Usage errors and ``--help`` leave by SystemExit, as argparse has it.
    """
    _open_closed_streams()
    # gRPC reads it when it is imported; its own chatter is not an output of ours.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    tell: Callable[[object], None] = show_error
    try:
        try:
            args = parse()
            if getattr(args, "log_format", "") == "json":  # every line is an object, the last one too
                from plugbay.cli.logs import log_error as tell
            return act(args)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        discard_stdout()
        return _BROKEN_PIPE
    except Ended:
        return 0
    except KeyboardInterrupt:
        return _INTERRUPTED
    except InvalidManifest as error:
        # All of them, so that a file can be corrected at once.
        for problem in (error, *error.more):
            tell(problem.sentence)
        return _FAILED
    except UsageError as error:
        tell(error)
        return _MISUSED
    except PlugbayError as error:
        tell(error)
        return _FAILED
    except OSError as error:
        if error.filename is None:  # output that cannot be written, such as to a full disk
            discard_stdout()
        tell(f"{error.filename or 'input or output failed'}: {error.strerror or error}")
        return _FAILED


def _open_closed_streams() -> None:
    """Let /dev/null stand for a standard stream that is closed (``>&-``): else a socket would get its number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)
