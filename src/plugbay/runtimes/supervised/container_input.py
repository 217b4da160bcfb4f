"""The standard input or the terminal of a container that asks for it; the part of its wrapper for such containers.

``stdin`` keeps a pipe open for clients that attach; with ``once`` it is closed when the first of them has ended its
input, and that client gets what was printed before it came. ``terminal`` is a terminal of the wrapper's own, and with
``engine`` one that the container's engine makes and hands over (`handover`).
"""

from __future__ import annotations

import _socket  # `socket` would import enum and selectors
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from plugbay.runtimes.supervised.output import STDOUT, Output
else:  # loaded by the wrapper's program, which knows no packages
    from output import STDOUT, Output

_EARLY_BYTES = 64 * 1024
_INT_BYTES = 4


class ContainerInput:
    """
    Attributes:
        theirs: the container's stdin, stdout and stderr; ours to close once it has them.
        sink: where its input is written; -1 when it takes none, or none any more.
        terminal: the terminal's master; -1 when there is none, or none yet.
        coming: the number of the socket over which an engine's terminal comes; -1 when none does.
    """

    def __init__(self, words: list[str], output: Output) -> None:
        self._takes_input = "stdin" in words
        self._output = output
        self._early: list[tuple[int, bytes]] = []
        self._early_bytes = 0
        self._comes_over: _socket.socket | None = None
        self.is_once = "once" in words
        self.has_terminal = "terminal" in words
        self.sink, self.terminal, self.coming = -1, -1, -1
        if "engine" in words:
            self._comes_over, theirs = _socket.socketpair()
            self._comes_over.setblocking(False)
            self.coming = self._comes_over.fileno()
            self.theirs = (theirs.detach(), *output.given)
        elif self.has_terminal:
            ours, slave = os.openpty()
            self.theirs = (slave, slave, slave)
            self._use(ours)
        else:
            stdin, self.sink = os.pipe()
            os.set_blocking(self.sink, False)
            self.theirs = (stdin, *output.given)
        if self.is_once:
            output.copy = self._keep

    def take_terminal(self) -> int:
        """Take the terminal if it has come, and return its number; -1 if not."""
        if self._comes_over is None:
            return -1
        try:
            _, controls, _, _ = self._comes_over.recvmsg(1, _socket.CMSG_SPACE(_INT_BYTES), _socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return -1
        except OSError:
            controls = []
        self._comes_over.close()
        self._comes_over, self.coming = None, -1
        if not controls:
            return -1  # the engine has failed
        self._use(int.from_bytes(controls[0][2], sys.byteorder))
        return self.terminal

    def taken_early(self) -> list[tuple[int, bytes]]:
        """All that was printed before the first client came; it is given once."""
        early, self._early = self._early, []
        self._output.copy = None
        return early

    def end(self) -> None:
        """Take no more input."""
        if self.sink >= 0:
            os.close(self.sink)
            self.sink = -1

    def _use(self, terminal: int) -> None:
        self.terminal = terminal
        self._output.add(terminal, STDOUT)
        if self._takes_input:
            self.sink = os.dup(terminal)

    def _keep(self, stream: int, chunk: bytes) -> None:
        self._early.append((stream, chunk))
        self._early_bytes += len(chunk)
        while self._early_bytes > _EARLY_BYTES:
            self._early_bytes -= len(self._early.pop(0)[1])
