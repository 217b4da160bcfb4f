"""A bare grpc.aio server: ``python -m bench.peers.echo SOCKET HEX`` answers every call with the bytes of HEX."""

from __future__ import annotations

import asyncio
import sys

import grpc

METHOD = "/bench.Echo/Echo"


async def main(socket: str, answer: bytes) -> None:
    async def echo(_: bytes, __: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        return answer

    server = grpc.aio.server()
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Echo", handlers),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], bytes.fromhex(sys.argv[2])))
