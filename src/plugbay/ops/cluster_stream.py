"""Answers of a cluster's API that are read as they come, for processes that follow an object.

Written here: the libraries for HTTP cost a plugin process more memory than all that it does, and one request at a time
to one server is little.

Source: RFC 9112, sections 6 and 7; Kubernetes, "API Concepts", section "Efficient detection of changes".
"""

from __future__ import annotations

import asyncio
import socket
import urllib.parse
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from plugbay.errors import ClusterUnusable
from plugbay.values import dataclass

if TYPE_CHECKING:
    from ssl import SSLContext

    from plugbay.ops.cluster import ClusterApi

_ANSWER_S: Final = 10.0
"""The time that a server may take to begin its answer, and the answer to come if it is to end."""
_MOST_BYTES: Final = 8 << 20
_MOST_HEADERS: Final = 100
_PIECE_BYTES: Final = 64 << 10
_ERRORS: Final = 400
_PROBES: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
"""A server that is gone without a word is noticed within a minute."""


@dataclass(frozen=True, slots=True)
class ClusterStream:
    """An answer whose body is still to be read, once."""

    status: int
    body: AsyncIterator[bytes]

    @property
    def is_good(self) -> bool:
        return self.status < _ERRORS

    async def whole(self) -> bytes:
        """The body to its end.

        Raises:
            ClusterUnusable: it is too long, or takes too long.
        """
        content = bytearray()
        try:
            async with asyncio.timeout(_ANSWER_S):
                async for piece in self.body:
                    content += piece
                    _check_size(content)
        except TimeoutError as error:
            raise ClusterUnusable(f"the answer is not complete after {_ANSWER_S:g} s") from error
        return bytes(content)

    async def lines(self) -> AsyncIterator[bytes]:
        """The lines of the body, each when it is complete.

        Raises:
            ClusterUnusable: one is too long.
        """
        rest = bytearray()
        async for piece in self.body:
            rest += piece
            *lines, rest = rest.split(b"\n")
            for line in lines:
                yield bytes(line)
            _check_size(rest)


def _check_size(content: bytearray) -> None:
    if len(content) > _MOST_BYTES:
        raise ClusterUnusable(f"the answer has more than {_MOST_BYTES} bytes")


@asynccontextmanager
async def opened(
    cluster: ClusterApi, *path: str, query: Mapping[str, str], accept: str
) -> AsyncIterator[ClusterStream]:
    """Get ``path``; the answer, which may be a refusal, is read inside the block.

    Raises:
        PathUnusable: the service account cannot be read.
        ClusterUnusable: the cluster does not answer, or not in HTTP; also inside the block.
    """
    place = urllib.parse.urlsplit(cluster.url)
    target = f"/{'/'.join(urllib.parse.quote(part, safe='') for part in path)}"
    if query:
        target += f"?{urllib.parse.urlencode(query)}"
    token, context = await asyncio.to_thread(_credentials, cluster)
    head = (
        f"GET {target} HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {token}\r\nAccept: {accept}\r\n"
        "User-Agent: plugbay\r\nConnection: close\r\n\r\n"
    )
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(_ANSWER_S):
            reader, writer = await asyncio.open_connection(place.hostname, place.port, ssl=context, limit=_PIECE_BYTES)
            _probe_when_silent(writer.get_extra_info("socket"))
            writer.write(head.encode("latin-1"))
            status, headers = await _head(reader)
        yield ClusterStream(status, _body(reader, headers))
    except TimeoutError as error:
        raise ClusterUnusable(f"{cluster.url} does not answer within {_ANSWER_S:g} s") from error
    except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
        raise ClusterUnusable(f"the cluster cannot be asked at {cluster.url}: {_in_words(error)}") from error
    finally:
        if writer is not None:
            writer.transport.abort()  # there is nothing left to be said, and a watch does not end by itself


def _credentials(cluster: ClusterApi) -> tuple[str, SSLContext | None]:
    if not cluster.is_encrypted:
        return cluster.token(), None
    import ssl  # imported here: it takes 4.5 MB, and most plugins ask no cluster

    try:
        return cluster.token(), ssl.create_default_context(cafile=cluster.authority)
    except OSError as error:
        raise ClusterUnusable(f"{cluster.authority} cannot be used: {error}") from error


def _probe_when_silent(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES:
        connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def _head(reader: asyncio.StreamReader) -> tuple[int, Mapping[str, str]]:
    version, _, rest = (await _line(reader)).partition(" ")
    status = rest[:3]
    if not version.startswith("HTTP/1.") or len(status) != 3 or not status.isdigit():
        raise ValueError("it does not answer in HTTP")
    headers: dict[str, str] = {}
    for _ in range(_MOST_HEADERS):
        if not (line := await _line(reader)):
            return int(status), headers
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    raise ValueError(f"its answer has more than {_MOST_HEADERS} headers")


async def _line(reader: asyncio.StreamReader) -> str:
    return (await reader.readuntil(b"\n")).decode("latin-1").rstrip("\r\n")


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        while size := int((await _line(reader)).partition(";")[0].strip(), 16):
            async for piece in _so_many(reader, size):
                yield piece
            await _line(reader)
        return
    if (length := headers.get("content-length")) is not None:
        async for piece in _so_many(reader, int(length)):
            yield piece
        return
    while piece := await reader.read(_PIECE_BYTES):
        yield piece


async def _so_many(reader: asyncio.StreamReader, size: int) -> AsyncIterator[bytes]:
    while size > 0:
        piece = await reader.read(min(size, _PIECE_BYTES))
        if not piece:
            raise EOFError("the answer breaks off")
        size -= len(piece)
        yield piece


def _in_words(error: Exception) -> str:
    match error:
        case asyncio.IncompleteReadError():
            return "the answer breaks off"
        case asyncio.LimitOverrunError():
            return "a line of its answer is too long"
        case OSError(strerror=str(text)):
            return text
        case _:
            return str(error)
