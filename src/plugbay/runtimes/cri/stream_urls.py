"""The URLs at which an engine streams, and the request that begins a stream: HTTP that is upgraded to SPDY/3.1.

Source: Kubernetes 1.36 ``kubelet/pkg/cri/streaming/server.go``.
"""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import urlsplit

from plugbay.errors import quote
from plugbay.values import dataclass

CONNECT_S: Final = 10.0
ANSWER_S: Final = 30.0
"""An engine answers before it does anything."""
HEAD_END: Final = b"\r\n\r\n"
MAX_HEAD_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class StreamUrl:
    """The address at which an engine waits; ``target`` is the path with the query."""

    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def request(self, protocol: str) -> bytes:
        """The head of the request; ``protocol`` is spoken within the streams."""
        return (
            f"POST {self.target} HTTP/1.1\r\nHost: {self.authority}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
            f"X-Stream-Protocol-Version: {protocol}\r\nContent-Length: 0\r\n\r\n"
        ).encode()

    def unreachable(self, error: Exception) -> str:
        """The words for an engine that cannot be connected to."""
        reason = f"nothing answers within {CONNECT_S:g} s" if isinstance(error, TimeoutError) else _reason(error)
        hint = ""
        if self.host in ("127.0.0.1", "::1", "localhost"):
            hint = "; it listens on loopback, which can be reached only from the engine's network namespace"
        return f"the engine's streams at {self.authority} cannot be reached: {reason}{hint}"

    def silent(self, answer_s: float) -> str:
        """The words for an engine that does not say whether it streams."""
        return f"the engine takes connections at {self.authority}, and answers none within {answer_s:g} s"


def stream_url(url: str) -> StreamUrl:
    """
    Raises:
        ValueError: it is not a URL that we can stream at.
    """
    try:
        parts = urlsplit(url)
        if parts.scheme == "http" and parts.hostname and parts.port is not None:
            return StreamUrl(parts.hostname, parts.port, parts.path + (f"?{parts.query}" if parts.query else ""))
    except ValueError:
        pass  # as bad as the others
    raise ValueError(f"the engine streams at {quote(url)}, and plugbay reads streams at http://HOST:PORT only")


def check_switched(head: bytes) -> None:
    """Check the head of an engine's answer.

    Raises:
        ValueError: the engine does not stream.
    """
    version, _, status = head.split(b"\r\n")[0].decode("latin-1").partition(" ")
    if not version.startswith("HTTP/1.") or not status.startswith("101"):
        raise ValueError(f"the engine refuses to stream: {status or version}")


def _reason(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number).lower() if number else str(error)
