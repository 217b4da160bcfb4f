"""gRPC over unix sockets for asyncio: unary calls and streams of the server, both sides, on `plugbay.wire.http2`.

May live here: what gRPC says about HTTP/2, and the sockets below it. May not: protobuf, and what a method means.
Messages are bytes here. There is one event loop, no thread, no timer on an idle connection and no state of the process.

Source: the document "gRPC over HTTP2" of the gRPC project; grpc-go 1.81 for the texts that users see.
"""
