"""A kubelet that asks for the list and reads nothing, as one that was stopped does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from plugbay.wire.grpc.framing import frame
from plugbay.wire.http2.connection import Http2Connection, Http2Limits, Role
from plugbay.wire.http2.header_blocks import encode

_ASKING: Final = encode(
    [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/v1beta1.DevicePlugin/ListAndWatch"),
        (b":authority", b"localhost"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    ]
)
_SMALL: Final = Http2Limits(stream_window=1)
"""No list fits into a window of one byte: who sends it waits."""


@asynccontextmanager
async def deaf_kubelet(socket: Path) -> AsyncIterator[None]:
    """Ask the plugin at ``socket`` for its list, and read nothing until the block ends.

    Raises:
        OSError: nobody listens there.
    """
    http2 = Http2Connection(Role.CLIENT, _SMALL, time.monotonic)
    _, writer = await asyncio.open_unix_connection(socket)
    try:
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # of a socket, as is every transport here
        stream = http2.open(_ASKING)
        http2.send_data(stream, frame(b""), ends=True)
        writer.write(http2.take())
        await writer.drain()
        yield
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
