"""One client of a wrapper, as the wrapper sees it; part of the wrapper's program."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket


class ServedExec:
    """One connection, and the command once it was started.

    Attributes:
        has_ended: whether its leader has ended; it is not reaped yet, so that no other process gets its number.
        is_attached: whether it is not a command, but a client of the container itself.
        is_left: whether its client has hung up.
        record: the name of the file that tells of it.
    """

    def __init__(self, connection: _socket.socket) -> None:
        self.connection = connection
        self.pid = 0
        self.pidfd = -1
        self.record = ""
        self.has_ended = False
        self.is_attached = False
        self.is_left = False

    def tell(self, line: str) -> bool:
        try:
            self.connection.send(f"{line}\n".encode())
        except OSError:
            return False  # gone; that it hung up is noticed by itself
        return True
