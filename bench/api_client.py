"""A client of a node's API over TLS that does next to nothing, so that what it measures is the node."""

from __future__ import annotations

import base64
import json
import selectors
import socket
import ssl
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

TABLE: Final = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
"""What ``kubectl get`` accepts."""
_PATIENCE_S: Final = 60
_READ_BYTES: Final = 64 * 1024


class ApiClient:
    """Connections with the API that the kubeconfig below ``root`` names."""

    def __init__(self, root: Path) -> None:
        config: Any = yaml.safe_load((root / "kubeconfig").read_text())
        cluster = config["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._tls = ssl.create_default_context(cadata=authority)
        self._tls.set_alpn_protocols(["http/1.1"])
        url = urlsplit(cluster["server"])
        assert url.hostname is not None
        assert url.port is not None
        self._host, self._port = url.hostname, url.port
        self._token: str = config["users"][0]["user"]["token"]

    def connect(self) -> Connection:
        plain = socket.create_connection((self._host, self._port), _PATIENCE_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Connection(self._tls.wrap_socket(plain, server_hostname=self._host), self._host, self._token)

    def fresh(self, target: str, accept: str = TABLE) -> bytes:
        """The body of one answer on a connection of its own."""
        with self.connect() as connection:
            return connection.ask("GET", target, accept=accept)


class Connection:
    """One connection; a watch is the last request on it."""

    def __init__(self, tls: ssl.SSLSocket, host: str, token: str) -> None:
        self.tls = tls
        self._head = f"Host: {host}\r\nAuthorization: Bearer {token}\r\nUser-Agent: bench\r\nAccept-Encoding: gzip\r\n"

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.tls.close()

    def ask(
        self,
        method: str,
        target: str,
        body: object = None,
        *,
        accept: str = "application/json",
        content_type: str = "application/json",
    ) -> bytes:
        """The body of an answer, compressed if the node compresses it."""
        self._send(method, target, body, accept, content_type)
        head, rest = self._receive_head()
        length = int(head[b"content-length"])
        parts, left = [rest], length - len(rest)
        while left > 0:
            if not (part := self.tls.recv(min(left, _READ_BYTES))):
                raise EOFError(f"the answer to {method} {target} ended early")
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def watch(self, target: str) -> bytes:
        """Begin a watch; returns what it has told so far, in chunks."""
        self._send("GET", target, None, "application/json", "application/json")
        return self._receive_head()[1]

    def _send(self, method: str, target: str, body: object, accept: str, content_type: str) -> None:
        sent = b"" if body is None else json.dumps(body).encode()
        content = f"Content-Type: {content_type}\r\nContent-Length: {len(sent)}\r\n" if sent else ""
        self.tls.sendall(f"{method} {target} HTTP/1.1\r\nAccept: {accept}\r\n{self._head}{content}\r\n".encode() + sent)

    def _receive_head(self) -> tuple[dict[bytes, bytes], bytes]:
        received = b""
        while b"\r\n\r\n" not in received:
            if not (part := self.tls.recv(_READ_BYTES)):
                raise EOFError("the node closed the connection")
            received += part
        head, _, rest = received.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        if first.split()[1][:1] != b"2":
            raise ValueError(f"{first.decode()}: {rest[:300].decode(errors='replace')}")
        pairs = (line.partition(b": ") for line in lines)
        return {name.lower(): value for name, _, value in pairs}, rest


class Watchers:
    """Many watches of one place, each on a connection of its own."""

    def __init__(self, stack: ExitStack, client: ApiClient, target: str, count: int) -> None:
        self._selector = stack.enter_context(selectors.DefaultSelector())
        self._seen: dict[ssl.SSLSocket, bytes] = {}
        for _ in range(count):
            connection = stack.enter_context(client.connect())
            connection.watch(target)
            connection.tls.setblocking(False)
            self._selector.register(connection.tls, selectors.EVENT_READ)
            self._seen[connection.tls] = b""

    def await_all(self, mark: bytes) -> None:
        """Wait until ``mark`` has arrived at each."""
        waiting = set(self._seen)
        end = time.monotonic() + _PATIENCE_S
        while waiting:
            ready = self._selector.select(end - time.monotonic())
            if not ready:
                raise TimeoutError(f"{len(waiting)} watches were not told of a change")
            for tls in _readable(ready):
                self._seen[tls] += _received(tls)
                if mark in self._seen[tls]:
                    self._seen[tls] = b""
                    waiting.discard(tls)


def _readable(ready: Iterable[tuple[selectors.SelectorKey, int]]) -> Iterable[ssl.SSLSocket]:
    for key, _ in ready:
        assert isinstance(key.fileobj, ssl.SSLSocket)
        yield key.fileobj


def _received(tls: ssl.SSLSocket) -> bytes:
    """All that has arrived; a whole record may wait in OpenSSL, of which a selector does not know."""
    parts: list[bytes] = []
    while True:
        try:
            part = tls.recv(_READ_BYTES)
        except ssl.SSLWantReadError:
            return b"".join(parts)
        if not part:
            raise EOFError("the node ended a watch")
        parts.append(part)
