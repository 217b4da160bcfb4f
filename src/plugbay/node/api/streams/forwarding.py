"""Forwarded ports: connections of a client's with processes in a pod, many at a time on one SPDY connection.

Each has a stream for its bytes and one for the words about what went wrong, which belong together by the ID of a
request. Neither a port that cannot be reached nor a connection that breaks ends the others.

Source: Kubernetes 1.36 ``kubelet/pkg/cri/streaming/portforward/httpstream.go``,
``client-go/tools/portforward/portforward.go``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from plugbay.errors import PortUnreachable
from plugbay.ops.routing import UpgradedStream
from plugbay.ops.tasks import first
from plugbay.runtimes.pod_ports import PodConnection
from plugbay.values import dataclass
from plugbay.wire.spdy.connection import SpdyRole
from plugbay.wire.spdy.frames import SpdyFault
from plugbay.wire.spdy.session import BytePipe, SpdySession, SpdyStream

logger = logging.getLogger(__name__)

_PARTNER_S: Final = 30.0
"""The time that a client has to open the second stream of a connection."""
_HIGHEST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class ForwardedPod:
    """A pod whose ports are forwarded.

    Attributes:
        connect: connects to one of its ports; see `plugbay.runtimes.pod_ports.PodPorts`.
    """

    name: str
    uid: str
    connect: Callable[[int], AbstractAsyncContextManager[PodConnection]]

    def problem(self, port: int, error: PortUnreachable) -> str:
        """A kubelet's words for a port that cannot be reached."""
        return f"error forwarding port {port} to pod {self.name}, uid {self.uid}: {error}"


class ForwardedClient(Protocol):
    """The client's end of one connection."""

    async def read(self) -> bytes:
        """Wait for bytes; empty once the client has ended its side.

        Raises:
            ConnectionError: the client has given the connection up.
        """
        ...

    async def write(self, chunk: bytes) -> None:
        """
        Raises:
            ConnectionError: the client has given the connection up.
        """
        ...

    async def end(self) -> None:
        """The pod has ended its side."""
        ...


def port_number(text: str) -> int:
    """
    Raises:
        ValueError: it is not the number of a port.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= _HIGHEST_PORT):
        raise ValueError(f'unable to parse "{text[:20]}" as a port')
    if int(text) == 0:
        raise ValueError(f'port "{text}" must be > 0')
    return int(text)


async def carry(pod: ForwardedPod, port: int, client: ForwardedClient) -> str:
    """Carry bytes both ways until both sides have ended, or one has broken off.

    Returns:
        The words for the client when the port cannot be reached; else nothing.
    """
    problem = ""
    try:
        async with pod.connect(port) as connection, asyncio.TaskGroup() as tasks:
            tasks.create_task(_up(client, connection))
            while chunk := await connection.read():
                await client.write(chunk)
            await client.end()
    except* PortUnreachable as group:
        problem = pod.problem(port, _only(group))
    except* ConnectionError:
        pass
    return problem


async def _up(client: ForwardedClient, connection: PodConnection) -> None:
    while chunk := await client.read():
        try:
            await connection.write(chunk)
        except ConnectionError:  # the process takes nothing more; what it sends may still come
            while await client.read():
                pass
            return
    await connection.end()


def _only(group: BaseExceptionGroup[PortUnreachable]) -> PortUnreachable:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, PortUnreachable)
    return error


async def forward_over_spdy(pipe: BytePipe, pod: ForwardedPod, connection: UpgradedStream) -> None:
    """Serve one client until it leaves, or does not speak SPDY.

    Args:
        connection: the one below ``pipe``.
    """
    session = SpdySession(pipe, SpdyRole.SERVER)
    try:
        await first(session.receive(), connection.until_gone(), _pair(session, pod))
    except* (SpdyFault, ConnectionError) as group:
        logger.debug("the forwarding of ports of pod %s ends: %s", pod.name, group.exceptions[0])


async def _pair(session: SpdySession, pod: ForwardedPod) -> None:
    """Put the streams together that belong together, and serve each connection in a task of its own."""
    waiting: dict[str, asyncio.Future[SpdyStream]] = {}
    async with asyncio.TaskGroup() as tasks:
        while (stream := await session.arrivals.get()) is not None:
            try:
                port = _port_of(stream)
            except ValueError as error:
                logger.debug("a stream is refused: %s", error)
                await stream.reset()
                continue
            await stream.accept()
            request = _request_of(stream)
            partner = waiting.get(request)
            if partner is None:
                partner = waiting[request] = asyncio.get_running_loop().create_future()
                tasks.create_task(_serve(stream, port, request, waiting, pod))
            elif not partner.done():
                partner.set_result(stream)
            else:
                await stream.reset()


async def _serve(
    stream: SpdyStream, port: int, request: str, waiting: dict[str, asyncio.Future[SpdyStream]], pod: ForwardedPod
) -> None:
    """Wait for the partner of a stream, then carry bytes."""
    with contextlib.suppress(ConnectionError):
        try:
            async with asyncio.timeout(_PARTNER_S):
                partner = await waiting[request]
        except TimeoutError:
            await stream.reset()
            return
        finally:
            del waiting[request]
        kinds = {_kind(each): each for each in (stream, partner)}
        if len(kinds) < 2:  # two of one kind
            await stream.reset()
            await partner.reset()
            return
        pair = _Pair(kinds["data"], kinds["error"])
        problem = await carry(pod, _port_of(pair.data), pair)
        await pair.finish(problem)


class _Pair:
    """The `ForwardedClient` of two streams."""

    def __init__(self, data: SpdyStream, problems: SpdyStream) -> None:
        self.data = data
        self._problems = problems

    async def read(self) -> bytes:
        return await self.data.read()

    async def write(self, chunk: bytes) -> None:
        await self.data.write(chunk)

    async def end(self) -> None:
        """End both: kubectl is done with a connection when it knows that nothing went wrong."""
        await self.data.end()
        await self._problems.end()

    async def finish(self, problem: str) -> None:
        """Close what is still open, after the words."""
        with contextlib.suppress(ConnectionError):
            await self._problems.write(problem.encode())
        await self._problems.end()
        await self._problems.reset()
        await self.data.reset()


def _port_of(stream: SpdyStream) -> int:
    """
    Raises:
        ValueError: the headers of the stream are not those of a forwarded connection.
    """
    if _kind(stream) not in ("data", "error"):
        raise ValueError(f"invalid stream type {_kind(stream)!r}")
    return port_number(stream.headers.get("port", ""))


def _kind(stream: SpdyStream) -> str:
    return stream.headers.get("streamtype", "")


def _request_of(stream: SpdyStream) -> str:
    """The ID of the request; old clients send none, and open the stream of bytes next after that of words."""
    if request := stream.headers.get("requestid", ""):
        return request
    return f"stream {stream.number - 2 if _kind(stream) == 'data' else stream.number}"
