"""The end of every command: each failure becomes a sentence and an exit code, never a traceback."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

from plugbay.cli.arguments.roots import root_option
from plugbay.cli.printing.output import discard_stdout, show_error
from plugbay.errors import InvalidManifest, NodeUnreachable, PlugbayError, UsageError

_FAILED: Final = 1
_MISUSED: Final = 2
_INTERRUPTED: Final = 130
_BROKEN_PIPE: Final = 141
"""The exit code that a shell reports for a program that died of SIGPIPE, as kubectl does."""


class EndedEarly(KeyboardInterrupt):
    """SIGTERM came before a lasting command had anything to end in order.

    A KeyboardInterrupt, because asyncio lets those through.
    """


def end_early_on_sigterm() -> None:
    """Let SIGTERM end a lasting command that is still being loaded.

    Without a handler the signal would be lost where the command is process 1 of a container, as in a DaemonSet, and the
    container would be killed only at the end of its grace period.

    Source: Linux ``pid_namespaces(7)``, "The namespace init process".
    """
    signal.signal(signal.SIGTERM, _end)


def _end(*_: object) -> None:
    raise EndedEarly


def outcome(parse: Callable[[], argparse.Namespace]) -> int:
    """Run the command that the arguments name; returns the exit code.

    Usage errors and ``--help`` leave by SystemExit, as argparse has it.
    """
    if None in (sys.stdin, sys.stdout, sys.stderr):  # otherwise the next file or socket would be the closed stream
        raise SystemExit("plugbay: error: a standard stream is closed; redirect it to /dev/null instead")
    # gRPC reads it when it is imported; its own chatter is not an output of ours.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    tell: Callable[[object], None] = show_error
    try:
        try:
            args = parse()
            if getattr(args, "log_format", "") == "json":  # every line is an object, the last one too
                from plugbay.cli.printing.logs import log_error as tell
            exit_code: int = args.run(args)
            return exit_code
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        discard_stdout()
        return _BROKEN_PIPE
    except EndedEarly:
        return 0
    except KeyboardInterrupt:
        return _INTERRUPTED
    except RecursionError:
        tell("the input is nested too deep")
        return _FAILED
    except OverflowError as error:
        tell(f"a number is too large: {error}")
        return _FAILED
    except InvalidManifest as error:
        # All of them, so that a file can be corrected at once.
        for problem in (error, *error.more):
            tell(problem.sentence)
        return _FAILED
    except UsageError as error:
        tell(error)
        return _MISUSED
    except NodeUnreachable as error:
        tell(f"{error}{root_option(args)}")
        return _FAILED
    except PlugbayError as error:
        tell(error)
        return _FAILED
    except OSError as error:
        if error.filename is None:  # output that cannot be written, such as to a full disk
            discard_stdout()
        tell(f"{error.filename or 'input or output failed'}: {error.strerror or error}")
        return _FAILED
