"""A program: a server of our gRPC in a process of its own, so that what peers cost it can be measured.

Its arguments are the path of its socket, and constants of the server to change, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path

from plugbay.wire.grpc import server, server_link
from plugbay.wire.grpc.metadata import Metadata
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.grpc.services import Method, ServerStream, Service, Unary


async def echo(request: bytes) -> bytes:
    return request


async def zeros(request: bytes) -> bytes:
    return bytes(int(request or b"0"))


async def hang(request: bytes) -> bytes:
    await asyncio.Event().wait()
    return request


async def linger(request: bytes) -> bytes:
    """It takes its time on its way out."""
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.5)
    return request


async def stream(request: bytes, _: Metadata) -> AsyncGenerator[bytes, None]:
    """Without an end: messages of so many bytes."""
    while True:
        yield bytes(int(request or b"0"))
        await asyncio.sleep(0)


async def state(_: bytes) -> bytes:
    return json.dumps(
        {
            "tasks": len(asyncio.all_tasks()),
            "descriptors": len(os.listdir("/proc/self/fd")),
            "cpu_s": time.process_time(),
        }
    ).encode()


METHODS: dict[str, Method] = {
    **{each.__name__.capitalize(): Unary(each) for each in (echo, zeros, hang, linger, state)},
    "Stream": ServerStream(stream),
}


async def serve(path: Path) -> None:
    async with serve_grpc(path, [Service("rig.Rig", METHODS)]):
        sys.stdout.write("serves\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> None:
    changed = json.loads(sys.argv[2])
    if (descriptors := changed.pop("descriptors", None)) is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    for name, value in changed.items():
        module = server if hasattr(server, name) else server_link
        assert hasattr(module, name)
        setattr(module, name, value)
    asyncio.run(serve(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
