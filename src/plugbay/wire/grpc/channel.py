"""A client of one unix socket: connects when first used, and again after the connection was lost."""

from __future__ import annotations

import asyncio
import errno
import math
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

from plugbay.errors import RpcFailed
from plugbay.wire.grpc import texts
from plugbay.wire.grpc.client_call import ClientCall, NotProcessed
from plugbay.wire.grpc.client_link import ClientLink
from plugbay.wire.grpc.framing import MAX_MESSAGE_BYTES
from plugbay.wire.grpc.metadata import NO_METADATA, Metadata, encode_metadata
from plugbay.wire.grpc.timeouts import encode_timeout
from plugbay.wire.http2.header_blocks import encode
from plugbay.wire.sockets import check_socket_path, connected

LOCALHOST: Final = "localhost"
"""The authority that a kubelet, and Go's gRPC for a unix socket, sends."""
DIAL_S: Final = 20.0
"""The time that a server has for its settings, as in Go's gRPC."""
_FIRST_DELAY_S: Final = 0.02
_MAX_DELAY_S: Final = 1.0
_TIMES: Final = 2
"""So often a call is made that the server says it has not seen."""


class Channel:
    """Calls to the server at a unix socket.

    Args:
        authority: the server's name in each call.
        max_message_bytes: the limit for received messages.

    Raises:
        PathTooLong: the kernel cannot connect to the path.
    """

    def __init__(self, path: Path, *, authority: str = LOCALHOST, max_message_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._path = check_socket_path(path)
        self._authority = authority.encode("ascii")
        self._max_message_bytes = max_message_bytes
        self._blocks: dict[str, bytes] = {}
        self._link: ClientLink | None = None
        self._links: set[ClientLink] = set()
        self._dialing = asyncio.Lock()
        self._dial_time: asyncio.Timeout | None = None
        self._is_closed = False
        self._failure: RpcFailed | None = None
        """The end of the last try to connect that failed."""

    # --- the connection ---------------------------------------------------------------------------------------------

    async def connect(self, timeout_s: float) -> None:
        """Connect now, and try again while no server listens yet.

        Raises:
            TimeoutError: no server answered in time.
            RpcFailed: the channel is closed.
        """
        delay_s = _FIRST_DELAY_S
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    await self._connected()
                    return
                except RpcFailed:
                    if self._is_closed:
                        raise
                await asyncio.sleep(delay_s)
                delay_s = min(2 * delay_s, _MAX_DELAY_S)

    @property
    def is_connected(self) -> bool:
        return self._link is not None and self._link.is_usable

    async def until_lost(self) -> None:
        """Wait until the connection is lost, at once if there is none. An idle one may be lost without a fault."""
        link = self._link  # this one: a call may make a new one before we learn that it is lost
        if link is not None and link.is_usable:
            await asyncio.wait([link.leaving])

    def break_off(self) -> None:
        """Break the connection as if it were lost: calls under way fail, and the next call makes a new one."""
        for link in tuple(self._links):
            link.abort()

    async def close(self) -> None:
        """Close the connection; calls under way fail, and so do later ones."""
        self._is_closed = True
        for link in tuple(self._links):
            link.close()
        if self._dial_time is not None and not self._dial_time.expired():
            self._dial_time.reschedule(0)
        async with self._dialing:  # the call that makes a connection just now closes it
            pass
        if self._links:
            await asyncio.wait([link.lost for link in self._links])

    # --- calls ------------------------------------------------------------------------------------------------------

    async def unary(
        self, method: str, request: bytes, *, timeout_s: float | None = None, metadata: Metadata = NO_METADATA
    ) -> bytes:
        """The answer to ``request``.

        Args:
            method: such as ``/v1beta1.DevicePlugin/Allocate``.

        Raises:
            RpcFailed: refused, no answer in time, or the connection was closed meanwhile.
            ValueError: metadata that gRPC does not carry, or a timeout that is not a number.
        """
        until = _until(timeout_s)
        for left in reversed(range(_TIMES)):
            call = await self._call(method, request, until, metadata)
            try:
                return await call.only()
            except NotProcessed as error:
                _raise_at_last(error, left)
            finally:
                call.end()
        raise AssertionError("neither answered nor failed")

    async def stream(
        self, method: str, request: bytes, *, timeout_s: float | None = None, metadata: Metadata = NO_METADATA
    ) -> AsyncGenerator[bytes, None]:
        """The messages of the server's stream until it ends normally; the call ends with the iteration.

        Raises:
            RpcFailed: refused, broken off, or the connection was closed meanwhile.
            ValueError: metadata that gRPC does not carry, or a timeout that is not a number.
        """
        until = _until(timeout_s)
        has_begun = False
        for left in reversed(range(_TIMES)):
            call = await self._call(method, request, until, metadata)
            try:
                while (message := await call.next()) is not None:
                    has_begun = True
                    yield message
                return
            except NotProcessed as error:
                _raise_at_last(error, 0 if has_begun else left)
            finally:
                call.end()

    async def _call(self, method: str, request: bytes, until: float | None, metadata: Metadata) -> ClientCall:
        if until is not None and until <= asyncio.get_running_loop().time():
            raise texts.deadline_passed()
        block = self._block(method)
        if metadata:
            block += encode(encode_metadata(metadata))
        link = await self._open(until)
        if until is not None:
            left_s = until - asyncio.get_running_loop().time()
            if left_s <= 0:
                raise texts.deadline_passed()
            block += encode([(b"grpc-timeout", encode_timeout(left_s))])
        return link.call(block, request, max_message_bytes=self._max_message_bytes, until=until)

    async def _open(self, until: float | None) -> ClientLink:
        """A connection that takes one more call."""
        if self._link is not None and self._link.is_usable and self._link.http2.can_open:
            return self._link
        link: ClientLink | None = None
        try:
            async with asyncio.timeout_at(until):
                while True:
                    link = None
                    link = await self._connected()
                    await link.until_open()
                    if link.is_usable:
                        return link
        except TimeoutError as error:
            raise (texts.deadline_passed() if link else texts.not_connected_in_time()) from error

    def _block(self, method: str) -> bytes:
        """The headers of a call, encoded once."""
        if (known := self._blocks.get(method)) is None:
            known = self._blocks[method] = encode(
                [
                    (b":method", b"POST"),
                    (b":scheme", b"http"),
                    (b":path", method.encode("ascii")),
                    (b":authority", self._authority),
                    (b"content-type", b"application/grpc"),
                    (b"user-agent", b"grpc-python-plugbay"),
                    (b"te", b"trailers"),
                ]
            )
        return known

    async def _connected(self) -> ClientLink:
        """The connection; makes one if there is none.

        Raises:
            RpcFailed: no server, or it is closed.
        """
        known = self._failure
        async with self._dialing:  # by all calls together, which also fail together
            if self._is_closed:
                raise texts.closing()
            if self._link is not None and self._link.is_usable:
                return self._link
            if self._failure is not None and self._failure is not known:
                raise RpcFailed(self._failure.code, self._failure.detail)
            try:
                self._link = await self._dial()
            except RpcFailed as failure:
                self._failure = RpcFailed(failure.code, failure.detail)  # without what its traceback keeps
                raise
            return self._link

    async def _dial(self) -> ClientLink:
        """A new connection to a server that has sent its settings.

        Raises:
            RpcFailed: no server, or none that answers in time, or the channel is closed.
        """
        link = ClientLink()
        try:
            async with asyncio.timeout(DIAL_S) as self._dial_time:
                await self._greet(link)
        except TimeoutError as error:
            if self._is_closed:
                raise texts.closing() from error
            if link not in self._links:
                raise texts.not_dialed(self._path, OSError(errno.EAGAIN, "its queue is full")) from error
            raise texts.not_connected('"error reading server preface: i/o timeout"') from error
        except OSError as error:
            raise texts.not_dialed(self._path, error) from error
        finally:
            self._dial_time = None
        return link

    async def _greet(self, link: ClientLink) -> None:
        try:
            connection = await connected(self._path)
            await asyncio.get_running_loop().create_unix_connection(lambda: link, sock=connection)
            self._links.add(link)
            link.lost.add_done_callback(lambda _: self._links.discard(link))
            await asyncio.wait([link.ready, link.leaving], return_when=asyncio.FIRST_COMPLETED)
            if self._is_closed:
                raise texts.closing()
            if not link.is_usable:
                raise texts.not_connected(f'"error reading server preface: {link.why_lost or "EOF"}"')
        except BaseException:
            link.abort()
            raise


def _until(timeout_s: float | None) -> float | None:
    if timeout_s is None or timeout_s == math.inf:
        return None
    if math.isnan(timeout_s):
        raise ValueError("a timeout of nan seconds never passes")
    return asyncio.get_running_loop().time() + timeout_s


def _raise_at_last(error: NotProcessed, left: int) -> None:
    """Raise the failure of a call that the server has not seen, unless it may be made again."""
    if not left:
        raise RpcFailed(error.failure.code, error.failure.detail) from None
