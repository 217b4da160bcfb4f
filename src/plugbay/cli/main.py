"""The entry point: which command runs, and how every failure ends."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

from plugbay.cli import cdi, checkpoint, cni, devices, events, new, node, pod, podresources, serve
from plugbay.cli.command_parser import CommandParser, add_commands
from plugbay.cli.output import PROGRAM, discard_stdout, show_error
from plugbay.cli.parsing import add_root
from plugbay.errors import InvalidManifest, PlugbayError, UsageError
from plugbay_command import Ended

_COMMANDS: Final = {
    "serve": serve,
    "devices": devices,
    "new": new,
    "node": node,
    "pod": pod,
    "events": events,
    "podresources": podresources,
    "checkpoint": checkpoint,
    "cdi": cdi,
    "cni": cni,
}

_FAILED: Final = 1
_MISUSED: Final = 2
_INTERRUPTED: Final = 130
_BROKEN_PIPE: Final = 141
"""What a shell reports for a program that died of SIGPIPE, as kubectl does."""


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command that ``argv`` (by default the process's arguments) names; returns the exit code.

    Usage errors and ``--help`` leave by SystemExit, as argparse has it.
    """
    _open_closed_streams()
    # gRPC reads it when it is imported; its own chatter is no output of ours.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    tell: Callable[[object], None] = show_error
    try:
        try:
            args = make_parser().parse_args(sys.argv[1:] if argv is None else argv)
            if getattr(args, "log_format", "") == "json":  # every line is an object, the last one too
                from plugbay.cli.logs import log_error as tell
            exit_code: int = _COMMANDS[args.command_name].run(args)
            return exit_code
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
        # All of them: who corrects a file wants to do it once.
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


def make_parser() -> CommandParser:
    """The whole command line, with all commands below it."""
    parser = CommandParser(
        prog=PROGRAM,
        description="Kubernetes device plugins on one machine: write them, use them, run pods with them.",
        examples=(
            "plugbay node up &",
            "plugbay serve --node directory --resource example.com/gopher --path /etc/gophers --env Gopher &",
            "plugbay pod run web --resource example.com/gopher=1 -- sleep 1000",
            "plugbay pod exec web -- env",
        ),
        epilog="Exit codes: 0 when it worked, 1 when it did not, 2 when the arguments make no sense, 130 after Ctrl-C. "
        "Commands that have others, or a verdict to tell, say so in their own help.",
    )
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and exit")
    add_root(parser, default=None)
    commands = add_commands(parser, dest="command_name")
    for module in _COMMANDS.values():
        module.add_parser(commands)
    return parser


class _ShowVersion(argparse.Action):
    """Looks the version up when it is asked for: the packages' metadata are slow to find."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"{PROGRAM} {version('plugbay')}")
        parser.exit()


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
