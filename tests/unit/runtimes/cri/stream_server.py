"""An engine's streaming server, scripted: it speaks SPDY from its own reading of the protocol."""

from __future__ import annotations

import asyncio
import json
import struct
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from plugbay.wire.spdy.header_blocks import DICTIONARY

DEADLINE_S: Final = 20
SWITCH: Final = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"


class Peer:
    """The engine's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self.head = ""
        self.streams: dict[str, int] = {}
        self.input: dict[str, bytes] = {}
        self.ended: set[str] = set()
        self.pings: list[int] = []

    async def accept(self, answer: bytes = SWITCH) -> None:
        async with asyncio.timeout(DEADLINE_S):
            self.head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        self.raw(answer)

    async def until_streams(self, count: int) -> None:
        while len(self.streams) < count:
            assert await self.read(), "the client went away"

    async def until(self, kind: str, chunk: bytes) -> None:
        while chunk not in self.input.get(kind, b""):
            assert await self.read(), f"the client went away: {self.input}"

    async def until_end(self, kind: str) -> None:
        while kind not in self.ended:
            assert await self.read(), "the client went away"

    async def until_gone(self) -> None:
        while await self.read():
            pass

    async def read(self) -> bool:
        """One frame; False when there are no more, or the client says so."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                first, second = struct.unpack(">II", await self._reader.readexactly(8))
                payload = await self._reader.readexactly(second & 0xFFFFFF)
        except (asyncio.IncompleteReadError, ConnectionError):
            return False
        names = {number: kind for kind, number in self.streams.items()}
        if first == 0x80030001:
            (stream,) = struct.unpack_from(">I", payload)
            self.streams[self._headers(payload[10:])["streamtype"]] = stream
        elif first == 0x80030006:
            self.pings.append(*struct.unpack(">I", payload))
        elif first == 0x80030007:
            return False
        elif first in names:
            self.input[names[first]] = self.input.get(names[first], b"") + payload
            if second >> 24 & 1:
                self.ended.add(names[first])
        else:
            raise AssertionError(f"frame {first:x}")
        return True

    def _headers(self, block: bytes) -> dict[str, str]:
        plain = self._inflate.decompress(block)
        words, offset = [], 4
        for _ in range(2 * struct.unpack_from(">I", plain)[0]):
            (size,) = struct.unpack_from(">I", plain, offset)
            words.append(plain[offset + 4 : offset + 4 + size].decode())
            offset += 4 + size
        return dict(zip(words[::2], words[1::2], strict=True))

    def raw(self, text: bytes) -> None:
        self._writer.write(text)

    def print(self, kind: str, chunk: bytes) -> None:
        self.raw(struct.pack(">II", self.streams[kind], len(chunk)) + chunk)

    def status(self, **status: object) -> None:
        self.print("error", json.dumps(status).encode())

    def reset(self, kind: str) -> None:
        """As an engine does with each stream when all is over."""
        self.raw(struct.pack(">IIII", 0x80030003, 8, self.streams[kind], 5))

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def streaming(behave: Callable[[Peer], Awaitable[None]]) -> AsyncIterator[str]:
    """The URL at which one connection is served as ``behave`` has it; it must end well."""
    served: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await behave(Peer(reader, writer))
        except BaseException as error:
            served.set_exception(error)
        else:
            served.set_result(None)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/exec/token?x=y"
        async with asyncio.timeout(DEADLINE_S):
            await served
