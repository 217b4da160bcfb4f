"""The input and output of a command that runs in a container: both ways at the same time, in one thread."""

from __future__ import annotations

import json
import os
import selectors
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from plugbay.cli.kubectl.terminal import raw_terminal, window_changes
from plugbay.node.api.streams.frames import ExecChannel, Frame, FrameDecoder
from plugbay.ops.http_client import Upgraded

_CHUNK: Final = 32 * 1024
_MAX_UNSENT: Final = 256 * 1024
"""The most input that is kept for a command that does not read; more is left unread on standard input."""


def run_session(upgraded: Upgraded, *, terminal: int | None) -> bytes | None:
    """Pass standard input on, and print what comes back.

    Args:
        terminal: of standard input, when the command has got one too; it passes every key on meanwhile.

    Returns:
        The payload of the frame that tells the exit code; None when the connection ended without one.

    Raises:
        OSError: the connection broke off, or our output cannot be written.
    """
    with ExitStack() as stack:
        session = _Session(upgraded, stack.enter_context(selectors.PollSelector()))
        if terminal is not None:
            stack.enter_context(raw_terminal(terminal))
            session.follow_window(terminal, stack.enter_context(window_changes()))
        return session.run()


class _Session:
    def __init__(self, upgraded: Upgraded, selector: selectors.BaseSelector) -> None:
        self._connection = upgraded.connection
        self._connection.setblocking(False)
        self._received = upgraded.received
        self._decoder = FrameDecoder()
        self._unsent = bytearray()
        self._selector = selector
        self._input = sys.stdin.fileno()
        self._has_input = True
        self._exit: bytes | None = None
        self._is_open = True
        selector.register(self._connection, selectors.EVENT_READ, self._receive)

    def follow_window(self, terminal: int, changes: int) -> None:
        def send_size() -> None:
            size = os.get_terminal_size(terminal)
            self._queue(ExecChannel.RESIZE, json.dumps({"width": size.columns, "height": size.lines}).encode())

        def changed() -> None:
            os.read(changes, _CHUNK)
            send_size()

        send_size()
        self._selector.register(changes, selectors.EVENT_READ, changed)

    def run(self) -> bytes | None:
        self._take(self._received)
        while self._is_open and self._exit is None:
            self._watch_what_can_move()
            for key, events in self._selector.select():
                if events & selectors.EVENT_WRITE:
                    self._send()
                if events & selectors.EVENT_READ and self._is_open:
                    react: Callable[[], None] = key.data
                    react()
        return self._exit

    def _watch_what_can_move(self) -> None:
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
        self._selector.modify(self._connection, wanted, self._receive)
        wants_input = self._has_input and len(self._unsent) < _MAX_UNSENT
        is_watched = self._input in self._selector.get_map()
        if wants_input and not is_watched:
            self._selector.register(self._input, selectors.EVENT_READ, self._read_input)
        elif is_watched and not wants_input:
            self._selector.unregister(self._input)

    def _receive(self) -> None:
        chunk = self._connection.recv(_CHUNK)
        self._is_open = bool(chunk)
        self._take(chunk)

    def _take(self, chunk: bytes) -> None:
        for frame in self._decoder.feed(chunk):
            match frame.channel:
                case ExecChannel.STDOUT:
                    _write(sys.stdout.fileno(), frame.payload)
                case ExecChannel.STDERR:
                    _write(sys.stderr.fileno(), frame.payload)
                case ExecChannel.EXIT:
                    self._exit = frame.payload

    def _read_input(self) -> None:
        chunk = os.read(self._input, _CHUNK)
        self._has_input = bool(chunk)
        self._queue(ExecChannel.STDIN, chunk)

    def _queue(self, channel: ExecChannel, payload: bytes) -> None:
        self._unsent += Frame(channel, payload).encode()

    def _send(self) -> None:
        try:
            sent = self._connection.send(self._unsent)
        except BlockingIOError:
            return
        except (BrokenPipeError, ConnectionResetError):
            # The command is over; what it printed, and how it ended, is still to be read.
            self._has_input = False
            sent = len(self._unsent)
        del self._unsent[:sent]


def _write(fd: int, payload: bytes) -> None:
    while payload:
        payload = payload[os.write(fd, payload) :]
