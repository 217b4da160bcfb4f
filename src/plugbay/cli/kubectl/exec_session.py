"""The input and output of a command that runs in a container: both ways at the same time, in one thread."""

from __future__ import annotations

import os
import selectors
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from plugbay.cli.kubectl.exec_channels import CommandConnection, CommandEnd
from plugbay.cli.kubectl.terminal import raw_terminal, window_changes
from plugbay.node.api.streams.channels import StreamChannel

_CHUNK: Final = 32 * 1024
_MAX_UNSENT: Final = 256 * 1024
"""The most input that is kept for a command that does not read; more is left unread on standard input."""


def run_session(connection: CommandConnection, *, source: int | None, terminal: int | None) -> CommandEnd:
    """Pass input on, and print what comes back.

    Args:
        source: the file descriptor that the input is read from; None for a command without input.
        terminal: the same one, when the command has got a terminal too; it passes every key on meanwhile.

    Raises:
        NodeUnreachable: the connection broke off, or ended without telling the end of the command.
        OSError: our output cannot be written, or our input read.
    """
    with ExitStack() as stack:
        session = _Session(connection, source, stack.enter_context(selectors.PollSelector()))
        if terminal is not None:
            stack.enter_context(raw_terminal(terminal))
            session.follow_window(terminal, stack.enter_context(window_changes()))
        session.run()
        return connection.end()


class _Session:
    def __init__(self, connection: CommandConnection, source: int | None, selector: selectors.BaseSelector) -> None:
        self._connection = connection
        self._connection.socket.setblocking(False)
        self._selector = selector
        self._source = source
        selector.register(connection.socket, selectors.EVENT_READ, self._receive)

    def follow_window(self, terminal: int, changes: int) -> None:
        def send_size() -> None:
            self._connection.resize(os.get_terminal_size(terminal))

        def changed() -> None:
            os.read(changes, _CHUNK)
            send_size()

        send_size()
        self._selector.register(changes, selectors.EVENT_READ, changed)

    def run(self) -> None:
        self._receive()
        while self._connection.is_open:
            self._watch_what_can_move()
            for key, events in self._selector.select():
                if events & selectors.EVENT_WRITE:
                    self._send()
                if events & selectors.EVENT_READ and self._connection.is_open:
                    react: Callable[[], None] = key.data
                    react()
        self._send()  # that we close the connection too

    def _watch_what_can_move(self) -> None:
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._connection.unsent else 0)
        self._selector.modify(self._connection.socket, wanted, self._receive)
        if self._source is None:
            return
        wants_input = len(self._connection.unsent) < _MAX_UNSENT
        is_watched = self._source in self._selector.get_map()
        if wants_input and not is_watched:
            self._selector.register(self._source, selectors.EVENT_READ, self._read_input)
        elif is_watched and not wants_input:
            self._selector.unregister(self._source)

    def _receive(self) -> None:
        for channel, chunk in self._connection.receive():
            _write((sys.stdout if channel is StreamChannel.STDOUT else sys.stderr).fileno(), chunk)

    def _read_input(self) -> None:
        assert self._source is not None
        chunk = os.read(self._source, _CHUNK)
        if not chunk:
            self._leave_input()
        self._connection.give(chunk)

    def _leave_input(self) -> None:
        if self._source is not None and self._source in self._selector.get_map():
            self._selector.unregister(self._source)
        self._source = None

    def _send(self) -> None:
        unsent = self._connection.unsent
        try:
            sent = self._connection.socket.send(unsent)
        except BlockingIOError:
            return
        except (BrokenPipeError, ConnectionResetError):
            # The command is over; what it printed, and how it ended, is still to be read.
            self._leave_input()
            sent = len(unsent)
        del unsent[:sent]


def _write(fd: int, payload: bytes) -> None:
    while payload:
        payload = payload[os.write(fd, payload) :]
