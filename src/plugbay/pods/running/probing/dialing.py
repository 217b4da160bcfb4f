"""Connections over TCP, with failures in Go's words: users see them in events."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from functools import cache

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def host_port(host: str, port: int) -> str:
    """``host:port``, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def dial(host: str, port: int, *, tls: bool = False) -> _Streams:
    """A connection; a server's certificate is not looked at.

    Raises:
        OSError: no connection; see `dial_problem`.
    """
    try:
        if not tls:
            return await asyncio.open_connection(host, port)
        return await asyncio.open_connection(host, port, ssl=_unverified(), server_hostname=host)
    except ValueError as error:
        raise socket.gaierror(socket.EAI_NONAME, f"{host!r} cannot be the name of a host") from error


def dial_problem(host: str, port: int, error: OSError) -> str:
    """Go's words for a connection that failed."""
    match error:
        case socket.gaierror():
            return f"dial tcp: lookup {host}: no such host"
        case TimeoutError():
            return f"dial tcp {host_port(host, port)}: i/o timeout"
        case ssl.SSLError():
            return _tls_problem(error)
        case _ if error.errno:
            return f"dial tcp {host_port(host, port)}: connect: {os.strerror(error.errno).lower()}"
        case _:  # several addresses, each with a failure of its own
            return f"dial tcp {host_port(host, port)}: {error}"


def speaks_plain_http(error: OSError) -> bool:
    """Whether a TLS connection failed because the server answered without TLS."""
    return isinstance(error, ssl.SSLError) and error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST")


def _tls_problem(error: ssl.SSLError) -> str:
    if speaks_plain_http(error):
        return "http: server gave HTTP response to HTTPS client"
    return f"remote error: tls: {(error.reason or 'handshake failure').replace('_', ' ').lower()}"


@cache
def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    return context
