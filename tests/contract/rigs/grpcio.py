"""grpcio as a peer of our gRPC: what other implementations send, and how they take what we send."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import grpc


def open_channel(path: Path) -> grpc.aio.Channel:
    """A channel of grpcio's to the server at ``path``."""
    # Without a pool of its own, channels to one path share a connection.
    options = (("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1))
    return grpc.aio.insecure_channel(f"unix:{quote(bytes(path))}", options=options)


@asynccontextmanager
async def serve_grpcio(path: Path, handlers: Sequence[grpc.GenericRpcHandler]) -> AsyncIterator[None]:
    """A server of grpcio's at ``path``, until the block ends."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(tuple(handlers))
    server.add_insecure_port(f"unix:{quote(bytes(path))}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)
        path.unlink(missing_ok=True)
