"""Clients that are attached to the container: the part of its wrapper that is loaded when the first one comes.

A client sends the words ``attach`` and ``stdin`` or ``nothing`` as it would send a command (`exec_server`), and gets a
line ``attached``. From then on the container's output is copied to its streams, and its input to the container's. It
changes the size of the terminal by a line ``size ROWS COLUMNS``. When it hangs up the container runs on; the wrapper
hangs up when the container has ended and the client has all its output.

The container waits for a client that reads slowly, as with containerd. One that reads nothing for some seconds gets a
line ``dropped`` and is left: engines pass output on themselves, and wait for it even when the container is killed.
"""

from __future__ import annotations

import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from plugbay.runtimes.supervised.container_input import ContainerInput
    from plugbay.runtimes.supervised.output import STDERR, STDOUT, Output
    from plugbay.runtimes.supervised.served_exec import ServedExec
else:  # loaded by the wrapper's program, which knows no packages
    from output import STDERR, STDOUT

_HIGH_WATER_BYTES = 256 * 1024
_READ_BYTES = 64 * 1024
_PATIENCE_S = 5.0
_LAST_S = 5.0
"""The time a client has at the end of the container to read what it has printed."""
_SET_SIZE = 0x5414
"""``TIOCSWINSZ``."""


class AttachedClient:
    """
    Attributes:
        stdin: where its input is read; -1 when it gives none, or none any more.
        pending: the output that it has not taken yet, by descriptor.
        read_at: the time at which it last took some, or had all.
    """

    def __init__(self, guest: ServedExec, stdin: int, stdout: int, stderr: int) -> None:
        self.guest = guest
        self.stdin = stdin
        self.outputs = {STDOUT: stdout, STDERR: stderr}
        self.pending = {stdout: bytearray(), stderr: bytearray()}
        self.lines = b""
        self.read_at = time.monotonic()

    def is_behind(self) -> bool:
        return any(len(pending) > _HIGH_WATER_BYTES for pending in self.pending.values())


class Attachments:
    """All clients that are attached; ``watched`` tells which descriptor to react to."""

    def __init__(self, watched: select.epoll, output: Output, given: ContainerInput | None) -> None:
        self._watched = watched
        self._output = output
        self._input = given
        self._attached: list[AttachedClient] = []
        self._to_container = bytearray()
        self._is_stuck = False
        """Whether the container takes no more input for now; no client is read meanwhile."""
        self._ends_then = False
        self._by_descriptor: dict[int, AttachedClient] = {}

    def add(self, guest: ServedExec, streams: list[int], *, gives_input: bool) -> None:
        stdin, stdout, stderr = map(os.dup, streams)
        if not gives_input:
            os.close(stdin)
            stdin = -1
        attachment = AttachedClient(guest, stdin, stdout, stderr)
        for descriptor in (each for each in (stdin, stdout, stderr) if each >= 0):
            os.set_blocking(descriptor, False)
            self._by_descriptor[descriptor] = attachment
        if stdin >= 0 and not self._is_stuck:
            self._watched.register(stdin, select.EPOLLIN)
        self._attached.append(attachment)
        guest.tell("attached")
        if self._input is not None:
            for stream, chunk in self._input.taken_early():
                self._give(attachment, stream, chunk)
        self._output.copy = self._copy

    def knows(self, descriptor: int) -> bool:
        return descriptor in self._by_descriptor or (self._input is not None and descriptor == self._input.sink)

    def holds_output(self) -> bool:
        """Whether a client is so far behind that the container has to wait."""
        return any(each.is_behind() for each in self._attached)

    def without_patience(self) -> list[ServedExec]:
        """Leave the clients that have read nothing for too long."""
        latest = time.monotonic() - _PATIENCE_S
        stuck = [each for each in self._attached if each.is_behind() and each.read_at < latest]
        for attachment in stuck:
            attachment.guest.tell("dropped")
            self._leave(attachment)
        return [each.guest for each in stuck]

    def react(self, descriptor: int) -> None:
        if self._input is not None and descriptor == self._input.sink:
            self._pass_on()
            return
        attachment = self._by_descriptor[descriptor]
        if descriptor == attachment.stdin:
            self._read(attachment)
        else:
            self._write(attachment, descriptor)

    def listen(self, guest: ServedExec) -> bool:
        """Read what a client says on its connection; False when it has hung up."""
        attachment = next(each for each in self._attached if each.guest is guest)
        try:
            said = guest.connection.recv(_READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            said = b""
        if not said:
            self._leave(attachment)
            return False
        *lines, attachment.lines = (attachment.lines + said).split(b"\n")
        for line in lines:
            self._resize(line.split())
        return True

    def close(self) -> None:
        """Give the clients what is left for them, and hang up."""
        self._output.copy = None
        deadline = time.monotonic() + _LAST_S
        for attachment in self._attached:
            for descriptor, pending in attachment.pending.items():
                ready = select.poll()
                ready.register(descriptor, select.POLLOUT)
                while pending and (left_s := deadline - time.monotonic()) > 0 and ready.poll(left_s * 1000):
                    if not send(descriptor, pending):
                        break
                os.close(descriptor)
            attachment.guest.connection.close()

    # --- what the container prints ----------------------------------------------------------------------------------

    def _copy(self, stream: int, chunk: bytes) -> None:
        for attachment in self._attached:
            self._give(attachment, stream, chunk)

    def _give(self, attachment: AttachedClient, stream: int, chunk: bytes) -> None:
        descriptor = attachment.outputs[stream]
        pending = attachment.pending.get(descriptor)
        if pending is None:
            return  # the client reads no more
        was_empty = not pending
        pending += chunk
        if was_empty:
            attachment.read_at = time.monotonic()
            if not send(descriptor, pending):
                self._stop_giving(attachment, descriptor)
            elif pending:
                self._watched.register(descriptor, select.EPOLLOUT)

    def _write(self, attachment: AttachedClient, descriptor: int) -> None:
        pending = attachment.pending[descriptor]
        attachment.read_at = time.monotonic()
        is_taken = send(descriptor, pending)
        if not pending or not is_taken:
            self._watched.unregister(descriptor)
        if not is_taken:
            self._stop_giving(attachment, descriptor)

    def _stop_giving(self, attachment: AttachedClient, descriptor: int) -> None:
        del attachment.pending[descriptor], self._by_descriptor[descriptor]
        os.close(descriptor)

    # --- what the container reads -----------------------------------------------------------------------------------

    def _read(self, attachment: AttachedClient) -> None:
        try:
            chunk = os.read(attachment.stdin, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._end_input(attachment)
        elif self._input is not None and self._input.sink >= 0:
            self._to_container += chunk
            self._pass_on()

    def _pass_on(self) -> None:
        assert self._input is not None
        if not send(self._input.sink, self._to_container):
            self._to_container.clear()
            self._ends_then = True
        if self._is_stuck != bool(self._to_container):
            self._is_stuck = not self._is_stuck
            self._watch_instead()
        if self._ends_then and not self._is_stuck:
            self._input.end()

    def _watch_instead(self) -> None:
        """Watch the container instead of the clients while it takes no input."""
        assert self._input is not None
        if self._is_stuck:
            self._watched.register(self._input.sink, select.EPOLLOUT)
        else:
            self._watched.unregister(self._input.sink)
        for each in self._attached:
            if each.stdin >= 0 and self._is_stuck:
                self._watched.unregister(each.stdin)
            elif each.stdin >= 0:
                self._watched.register(each.stdin, select.EPOLLIN)

    def _end_input(self, attachment: AttachedClient) -> None:
        """Note that a client gives no more. The first one ends the container's input if that is for one only."""
        if attachment.stdin < 0:
            return
        if not self._is_stuck:
            self._watched.unregister(attachment.stdin)
        del self._by_descriptor[attachment.stdin]
        os.close(attachment.stdin)
        attachment.stdin = -1
        if self._input is not None and self._input.is_once and not self._input.has_terminal:
            self._ends_then = True
            if not self._is_stuck:
                self._input.end()

    def _resize(self, words: list[bytes]) -> None:
        if self._input is not None and self._input.terminal >= 0 and len(words) == 3 and words[0] == b"size":
            import fcntl

            size = b"".join(int(each).to_bytes(2, sys.byteorder) for each in words[1:]) + bytes(4)
            fcntl.ioctl(self._input.terminal, _SET_SIZE, size)

    def _leave(self, attachment: AttachedClient) -> None:
        self._end_input(attachment)
        for descriptor, pending in list(attachment.pending.items()):
            if pending:
                self._watched.unregister(descriptor)
            self._stop_giving(attachment, descriptor)
        self._attached.remove(attachment)


def send(descriptor: int, pending: bytearray) -> bool:
    """Write what is taken of ``pending``, and remove it there; False when nothing is taken any more."""
    while pending:
        try:
            written = os.write(descriptor, pending)
        except BlockingIOError:
            return True
        except OSError:
            return False
        del pending[:written]
    return True
