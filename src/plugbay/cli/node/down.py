"""``plugbay node down`` and ``plugbay node status``: the process of a node, by the lock that it holds."""

from __future__ import annotations

import argparse
import os
import select
import signal
from pathlib import Path
from typing import Final

from plugbay.cli.arguments.options import add_root, duration_s
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.roots import chosen_root, root_option
from plugbay.cli.arguments.starting import is_node_up
from plugbay.cli.printing.output import show, show_error, show_note
from plugbay.errors import PathUnusable
from plugbay.node.config import NodeConfig

_LOCKS: Final = Path("/proc/locks")
_NOT_UP: Final = 1


def declare_down(parser: CommandParser) -> None:
    parser.describe(
        "Stop the node as SIGTERM does, and wait until its process has ended. Its pods go on, and the next "
        "`plugbay node up` takes them over. Where no node runs there is nothing to do, and the exit code is 0 too.",
        examples=("plugbay node down", "plugbay node drain n1 && plugbay node down"),
        run=stop_node,
    )
    parser.add_argument(
        "--timeout",
        type=duration_s,
        default="60s",
        metavar="TIME",
        help="how long to wait for its end; 0 is without end (default: %(default)s)",
    )
    add_root(parser)


def declare_status(parser: CommandParser) -> None:
    parser.describe(
        "Tell whether a node runs on the root. The exit code is 0 if one does and 1 if none does.",
        run=show_status,
    )
    add_root(parser)


def stop_node(args: argparse.Namespace) -> int:
    """Ask the node to stop in order, and wait until its process has ended."""
    root = chosen_root(args)
    if (process := _process_of(root)) is None:
        show_note(f"no node runs on {root}")
        return 0
    pid, descriptor = process
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if not poll.poll(args.timeout * 1000 if args.timeout else None):
            show_error(f"the node (pid {pid}) was asked to stop and has not ended after {args.timeout:g} s")
            return 1
    except ProcessLookupError:
        pass  # it has ended by itself meanwhile
    except PermissionError as error:
        raise PathUnusable(str(root), f"its node (pid {pid}) is another user's") from error
    finally:
        os.close(descriptor)
    show(
        f"node stopped; its pods go on, and the next `plugbay node up{root_option(args)}` takes them over (pid {pid})\n"
    )
    return 0


def show_status(args: argparse.Namespace) -> int:
    """Print whether a node runs; returns 0 if it does, else 1."""
    root = chosen_root(args)
    if (process := _process_of(root)) is None:
        show(f"no node runs on {root}\n")
        return _NOT_UP
    pid, descriptor = process
    os.close(descriptor)
    show(f"a node (pid {pid}) {'runs' if is_node_up(root) else 'is stopping'} on {root}\n")
    return 0


def _process_of(root: Path) -> tuple[int, int] | None:
    """The node on ``root``, with a descriptor of its process, which no other process can take the place of.

    The lock itself is not tried: a node that starts meanwhile would be refused.
    """
    lock = NodeConfig(root).lock
    if (pid := _holder(lock)) is None:
        return None
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    if _holder(lock) != pid:  # it has ended, and its number may be another process's by now
        os.close(descriptor)
        return None
    return pid, descriptor


def _holder(lock: Path) -> int | None:
    """The process that ``lock`` names as its holder, if the kernel agrees.

    Source: Linux ``proc_locks(5)``.
    """
    try:
        text, inode = lock.read_text().strip(), lock.stat().st_ino
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise PathUnusable(str(lock), "is another user's") from error
    held = (line.split() for line in _LOCKS.read_text().splitlines() if " FLOCK " in line)
    return int(text) if any(words[4] == text and words[5].endswith(f":{inode}") for words in held) else None
