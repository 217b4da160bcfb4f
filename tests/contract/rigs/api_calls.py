"""Requests to the API of a node by its unix socket, and all of their answers: status, headers, body."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

APPLY = "application/apply-patch+yaml"
DEADLINE_S = 30
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
Json = dict[str, Any]


class ApiAnswer(NamedTuple):
    status: int
    value: Any
    warnings: list[str]


class ApiCaller:
    """Sends requests, each on a connection of its own.

    Args:
        path: the socket.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    async def __call__(
        self, method: str, path: str, body: object = None, /, *, kind: str = "", accept: str = "", **query: str
    ) -> ApiAnswer:
        """Send ``body`` as JSON, or as it is if it is bytes; ``kind`` is its media type."""
        sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        headers = {"Content-Type": kind or "application/json"} | ({"Accept": accept} if accept else {})
        target = f"{path}?{urlencode(query)}" if query else path
        return await asyncio.to_thread(self._call, method, target, sent, headers)

    def _call(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> ApiAnswer:
        with closing(HTTPConnection("plugbay", timeout=DEADLINE_S)) as connection:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(DEADLINE_S)
            connection.sock.connect(str(self._path))
            connection.request(method, target, body, dict(headers))
            answer = connection.getresponse()
            text = answer.read()
            return ApiAnswer(answer.status, _parsed(text), answer.headers.get_all("Warning") or [])


def _parsed(text: bytes) -> Any:
    """One JSON value, or a list of those on the lines."""
    try:
        return json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]
