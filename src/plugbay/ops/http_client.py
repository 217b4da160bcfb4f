"""A client for our own control sockets, for commands: synchronous, and imported in no time."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from plugbay.errors import NodeUnreachable, PathUnusable
from plugbay.ops.deadline_socket import DeadlineSocket
from plugbay.values import dataclass

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse
    from pathlib import Path

_CHUNK_BYTES: Final = 64 * 1024
_SWITCHING: Final = 101
_LONGEST_WAIT_S: Final = 24 * 86400.0
"""The longest wait that poll(2) can count; a longer one becomes a wait without end."""
_JSON: Final = "application/json"
_CLOSE: Final[Mapping[str, str]] = {"Connection": "close"}


@dataclass(frozen=True, slots=True)
class ClientResponse:
    """A response read whole."""

    status: int
    body: bytes

    def json(self) -> object:
        """The body as JSON; ValueError when it is not."""
        import json

        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class ClientStream:
    """A response whose body is still coming.

    Attributes:
        chunks: pieces of the body as they arrive, not as they were sent; to be read once.
    """

    status: int
    chunks: Iterator[bytes]


@dataclass(frozen=True, slots=True)
class Upgraded:
    """A connection that speaks another protocol from now on.

    Attributes:
        headers: of the answer; their names are in lower case.
        connection: without timeout.
        received: what came along with the answer, and is to be read before the rest.
    """

    headers: Mapping[str, str]
    connection: socket.socket
    received: bytes


class UpgradeRefused(Exception):
    """The server gave an ordinary answer instead; it never leaves the command."""

    def __init__(self, response: ClientResponse) -> None:
        super().__init__(response)
        self.response = response


class TimeIsUp(Exception):
    """A stream has been read for as long as its reader wanted; it never leaves the command."""


class UnixHttpClient:
    """Speaks HTTP/1.1 with the server of a unix socket, over one connection for each request.

    Every failure of the connection is raised as `NodeUnreachable`, or `PathUnusable` for want of rights; a status of
    400 or more is an ordinary answer.

    Args:
        timeout_s: longest silence of the server, except between the chunks of a stream.
        is_deadline: all of a request and its answer has to be over within ``timeout_s``, however the server sends it.
        wait_for_server: called when no program serves, before it is tried once more; may take its time.
    """

    def __init__(
        self,
        socket_path: Path,
        *,
        timeout_s: float = 30,
        is_deadline: bool = False,
        wait_for_server: Callable[[], object] = lambda: None,
    ) -> None:
        self._socket_path = socket_path
        self._timeout_s = timeout_s
        self._is_deadline = is_deadline
        self._wait_for_server = wait_for_server

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        content_type: str = _JSON,
    ) -> ClientResponse:
        """Send a request and read the answer.

        Args:
            path: percent-encoded where it needs to be; ``query`` is encoded here.
            body: JSON, or what ``content_type`` says.
        """
        headers = {**_CLOSE, "Content-Type": content_type}
        with self._translated(), self._exchange(method, _target(path, query), body, headers) as (_, response):
            return ClientResponse(response.status, response.read())

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        for_s: float | None = None,
    ) -> Iterator[ClientStream]:
        """Send a request and read the answer as it comes; leaving the context breaks off.

        Args:
            for_s: read no longer than that many seconds, then raise `TimeIsUp`; None is without end.
        """
        end = None if for_s is None else time.monotonic() + for_s
        with contextlib.ExitStack() as stack:
            with self._translated():
                connection, response = stack.enter_context(self._exchange(method, _target(path, query), body))
            yield ClientStream(response.status, self._chunks(connection, response, end))

    @contextmanager
    def upgrade(
        self, path: str, *, query: Sequence[tuple[str, str]], protocol: str, headers: Mapping[str, str]
    ) -> Iterator[Upgraded]:
        """Ask for ``protocol`` and go on in it on the same connection; leaving the context closes it.

        Args:
            query: a key may be there several times.

        Raises:
            UpgradeRefused: the server did not switch.
        """
        headers = {"Connection": "Upgrade", "Upgrade": protocol, **headers}
        with contextlib.ExitStack() as stack:
            with self._translated():
                exchange = self._exchange("GET", _target(path, query), b"", headers)
                connection, response = stack.enter_context(exchange)
                if response.status != _SWITCHING:
                    raise UpgradeRefused(ClientResponse(response.status, response.read()))
                received = _buffered(connection, response)
            connection.settimeout(None)
            yield Upgraded({name.lower(): value for name, value in response.getheaders()}, connection, received)

    def _chunks(self, connection: socket.socket, response: HTTPResponse, end: float | None) -> Iterator[bytes]:
        with self._translated():
            while chunk := _next_chunk(connection, response, end):
                yield chunk

    @contextmanager
    def _exchange(
        self, method: str, target: str, body: bytes, headers: Mapping[str, str] = _CLOSE
    ) -> Iterator[tuple[socket.socket, HTTPResponse]]:
        # Imported here: with the e-mail package behind it, it costs a command 15 ms.
        from http.client import HTTPConnection

        http = HTTPConnection("localhost")
        with self._socket() as connection:
            connection.settimeout(self._timeout_s)
            self._connect(connection)
            http.sock = connection
            _send(http, method, target, body, headers)
            with http.getresponse() as response:
                yield connection, response

    def _socket(self) -> socket.socket:
        if self._is_deadline:
            return DeadlineSocket(socket.AF_UNIX, end=time.monotonic() + self._timeout_s)
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def _connect(self, connection: socket.socket) -> None:
        try:
            connection.connect(str(self._socket_path))
        except (FileNotFoundError, ConnectionRefusedError):
            # Whatever is found out there: it may have come between the two looks.
            self._wait_for_server()
            connection.connect(str(self._socket_path))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        path = str(self._socket_path)
        from http.client import HTTPException

        try:
            yield
        except FileNotFoundError as error:
            raise NodeUnreachable(path, "there is no such socket") from error
        except ConnectionRefusedError as error:
            raise NodeUnreachable(path, "nothing is listening") from error
        except TimeoutError as error:
            raise NodeUnreachable(path, f"no answer within {self._timeout_s:g} s") from error
        except PermissionError as error:
            raise PathUnusable(path, "permission denied; only the user who runs this node may talk to it") from error
        except (ConnectionError, HTTPException) as error:
            raise NodeUnreachable(path, "the connection broke off") from error
        except OSError as error:
            raise NodeUnreachable(path, (error.strerror or str(error)).lower()) from error


def _next_chunk(connection: socket.socket, response: HTTPResponse, end: float | None) -> bytes:
    if end is None:
        connection.settimeout(None)
        return response.read1(_CHUNK_BYTES)
    left_s = end - time.monotonic()
    if left_s <= 0:
        raise TimeIsUp
    connection.settimeout(left_s if left_s < _LONGEST_WAIT_S else None)
    try:
        return response.read1(_CHUNK_BYTES)
    except TimeoutError:
        raise TimeIsUp from None


def _buffered(connection: socket.socket, response: HTTPResponse) -> bytes:
    """The bytes after a response's head that were read together with it."""
    connection.setblocking(False)
    return response.fp.peek()


def _send(http: HTTPConnection, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> None:
    if body:
        headers = {"Content-Type": _JSON, **headers}
    # A server that refuses a body answers before it has read all of it, and then reads no more.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        http.request(method, target, body or None, dict(headers))


def _target(path: str, query: Mapping[str, str] | Sequence[tuple[str, str]] | None) -> str:
    if not query:
        return path
    from urllib.parse import urlencode

    return f"{path}?{urlencode(query)}"
