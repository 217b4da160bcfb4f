"""Health checks of gRPC servers over TCP, as a kubelet's probe makes them: one connection for each.

Source: kubelet 1.36 ``pkg/probe/grpc/grpc.go``; the document "GRPC Health Checking Protocol" of the gRPC project.
"""

from __future__ import annotations

import asyncio
from typing import Final

from google.protobuf.message import DecodeError

from plugbay.errors import RpcCode, RpcFailed
from plugbay.wire.generated import health_v1_pb2 as pb
from plugbay.wire.grpc import texts
from plugbay.wire.grpc.client_call import NotProcessed
from plugbay.wire.grpc.client_link import ClientLink
from plugbay.wire.grpc.framing import MAX_MESSAGE_BYTES
from plugbay.wire.grpc.timeouts import encode_timeout
from plugbay.wire.http2.header_blocks import encode

SERVING: Final = "SERVING"
_METHOD: Final = b"/grpc.health.v1.Health/Check"
_FIRST_DELAY_S: Final = 1.0
_GROWTH: Final = 1.6
"""The waits between two tries to connect grow so, as in Go's gRPC."""


class NotConnected(Exception):
    """No connection was made in time; it never leaves the probe."""


async def check_health(host: str, port: int, service: str, *, timeout_s: float, user_agent: str) -> str:
    """The status of ``service``, such as ``SERVING``; an empty one is the server as a whole.

    Args:
        timeout_s: for the connection, which is tried again until then, and for the call.

    Raises:
        NotConnected: no server in time.
        RpcFailed: the server refused the call, or did not answer it in time.
    """
    until = asyncio.get_running_loop().time() + timeout_s
    try:
        async with asyncio.timeout_at(until):
            link = await _connected(host, port)
    except TimeoutError as error:
        raise NotConnected from error
    try:
        return await _check(link, f"{_bracketed(host)}:{port}", service, until=until, user_agent=user_agent)
    finally:
        link.close()


async def _connected(host: str, port: int) -> ClientLink:
    """A connection to a server that has sent its settings; tried until the caller gives up."""
    delay_s = _FIRST_DELAY_S
    while (link := await _dialed(host, port)) is None:
        await asyncio.sleep(delay_s)
        delay_s *= _GROWTH
    return link


async def _dialed(host: str, port: int) -> ClientLink | None:
    link = ClientLink()
    try:
        await asyncio.get_running_loop().create_connection(lambda: link, host, port)
        await asyncio.wait([link.ready, link.leaving], return_when=asyncio.FIRST_COMPLETED)
    except OSError:
        return None
    except BaseException:
        link.abort()
        raise
    return link if link.is_usable else None


async def _check(link: ClientLink, authority: str, service: str, *, until: float, user_agent: str) -> str:
    left_s = until - asyncio.get_running_loop().time()
    if left_s <= 0:
        raise texts.deadline_passed()
    block = encode(
        [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", _METHOD),
            (b":authority", authority.encode("ascii")),
            (b"content-type", b"application/grpc"),
            (b"user-agent", user_agent.encode()),
            (b"te", b"trailers"),
            (b"grpc-timeout", encode_timeout(left_s)),
        ]
    )
    request = pb.HealthCheckRequest(service=service).SerializeToString()
    call = link.call(block, request, max_message_bytes=MAX_MESSAGE_BYTES, until=until)
    try:
        answer = pb.HealthCheckResponse.FromString(await call.only())
    except NotProcessed as error:
        raise error.failure from None
    except DecodeError as error:
        raise RpcFailed(RpcCode.INTERNAL, f"grpc: failed to unmarshal the received message: {error}") from error
    finally:
        call.end()
    known = pb.HealthCheckResponse.ServingStatus
    return known.Name(answer.status) if answer.status in known.values() else str(int(answer.status))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
