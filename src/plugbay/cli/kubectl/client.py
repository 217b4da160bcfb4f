"""The control socket as a command sees it: v1 objects in, v1 objects out, refusals as exceptions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from plugbay.cli.arguments.starting import SOCKET_NAME, wait_for_start
from plugbay.cli.printing.progress import telling
from plugbay.documents import Json
from plugbay.errors import NodeUnreachable, RequestRefused, UsageError
from plugbay.ops.http_client import ClientStream, UnixHttpClient, UpgradeRefused
from plugbay.printers import v1
from plugbay.values import dataclass

if TYPE_CHECKING:
    from plugbay.cli.kubectl.exec_channels import CommandConnection

NOT_FOUND: Final = "NotFound"
"""The reason of a refusal: the object does not exist."""

START_S: Final = 30.0
"""The longest wait for a node that starts. A start usually takes one or two seconds; a failed start ends the wait."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """``type`` is ADDED, MODIFIED or DELETED."""

    type: str
    object: Json


class NodeClient:
    """Asks the node whose root is ``root``, which may just be starting. Nothing is sent before a method is called.

    Attributes:
        socket: the node's control socket.

    Every method raises `RequestRefused` when the node refuses and `NodeUnreachable` when there is none.
    """

    def __init__(self, root: Path) -> None:
        self.socket = root / SOCKET_NAME
        self._root = root
        self._http = UnixHttpClient(self.socket, wait_for_server=self._wait_for_start)

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Json:
        return self._ask("GET", path, query)

    def find(self, path: str) -> Json | None:
        """The object that `get` gives; None if it does not exist."""
        try:
            return self.get(path)
        except RequestRefused as error:
            if error.reason == NOT_FOUND:
                return None
            raise

    def delete(self, path: str, query: Mapping[str, str] | None = None) -> Json:
        return self._ask("DELETE", path, query)

    def create(self, path: str, value: Json) -> Json:
        """Create an object in the list at ``path``; a namespace comes with the first object in it."""
        namespace, body = v1.namespace(value), json.dumps(value).encode()
        try:
            return self._ask("POST", path, body=body)
        except RequestRefused as error:
            if error.reason != NOT_FOUND or not namespace or f'namespaces "{namespace}"' not in str(error):
                raise
        self._ask("POST", "/api/v1/namespaces", body=json.dumps({"metadata": {"name": namespace}}).encode())
        return self._ask("POST", path, body=body)

    def replace(self, path: str, value: Json) -> Json:
        """Change the object at ``path``, so that it is as ``value`` says."""
        return self._ask("PUT", path, body=json.dumps(value).encode())

    @contextmanager
    def watch(
        self, path: str, query: Mapping[str, str] | None = None, *, for_s: float | None = None
    ) -> Iterator[Iterator[WatchEvent]]:
        """The changes of a list as they happen, what is there first; `TimeIsUp` is raised after ``for_s`` seconds.

        Inside the context the watch has begun: no later change is missed.
        """
        with self._http.stream("GET", path, query={**(query or {}), "watch": "true"}, for_s=for_s) as stream:
            _refuse(stream)
            yield map(_watch_event, self._until_broken(_lines(stream.chunks)))

    def _until_broken(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        yield from lines
        # A watch has no end of its own.
        raise NodeUnreachable(str(self.socket), "the node ended the watch")

    @contextmanager
    def read(
        self, path: str, query: Mapping[str, str] | None = None, *, for_s: float | None = None
    ) -> Iterator[Iterator[bytes]]:
        """The pieces of a text as they come; `TimeIsUp` is raised after ``for_s`` seconds."""
        with self._http.stream("GET", path, query=query, for_s=for_s) as stream:
            _refuse(stream)
            yield stream.chunks

    @contextmanager
    def read_lines(
        self, path: str, query: Mapping[str, str] | None = None, *, for_s: float | None = None
    ) -> Iterator[Iterator[bytes]]:
        """The lines of a text as they come, without their ends; see `read`."""
        with self.read(path, query, for_s=for_s) as chunks:
            yield _lines(chunks)

    @contextmanager
    def exec(self, path: str, query: Mapping[str, str], command: Sequence[str]) -> Iterator[CommandConnection]:
        """A command that runs; leaving the context kills it.

        Raises:
            UsageError: wsproto is not installed.
        """
        try:
            from plugbay.cli.kubectl.exec_channels import CommandConnection, WebSocketOffer
        except ModuleNotFoundError as error:
            if error.name != "wsproto":
                raise
            problem = "running commands in containers needs the package wsproto; install it with: pip install wsproto"
            raise UsageError(problem) from error

        offer = WebSocketOffer()
        asked = [*(("command", word) for word in command), *query.items(), ("stdout", "true"), ("stderr", "true")]
        try:
            with self._http.upgrade(path, query=asked, protocol="websocket", headers=offer.headers) as upgraded:
                if not offer.is_accepted(upgraded.headers):
                    raise NodeUnreachable(str(self.socket), "it does not speak WebSocket as kubectl does")
                yield CommandConnection(upgraded, str(self.socket))
        except UpgradeRefused as error:
            raise _refusal(error.response.status, error.response.body) from None

    def _wait_for_start(self) -> None:
        try:
            with telling(lambda: f"waiting for the node that starts at {self._root}"):
                wait_for_start(self._root, for_s=START_S)
        except TimeoutError:
            raise NodeUnreachable(str(self.socket), f"it is still starting after {START_S:g} s") from None

    def _ask(self, method: str, path: str, query: Mapping[str, str] | None = None, *, body: bytes = b"") -> Json:
        response = self._http.request(method, path, query=query, body=body)
        if response.status >= 400:
            raise _refusal(response.status, response.body)
        return _json_object(response.body)


def pods_path(namespace: str | None) -> str:
    """The path of a namespace's pods; of all pods for None."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods" if namespace is not None else "/api/v1/pods"


def selecting(selector: str | None) -> dict[str, str]:
    """The query of a list, or a watch, for objects with such labels; for all objects if None."""
    return {"labelSelector": selector} if selector is not None else {}


def pod_path(namespace: str, name: str) -> str:
    return f"{pods_path(namespace)}/{quote(name, safe='')}"


def events_path(namespace: str | None) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/events" if namespace is not None else "/api/v1/events"


def nodes_path(name: str | None = None) -> str:
    return f"/api/v1/nodes/{quote(name, safe='')}" if name is not None else "/api/v1/nodes"


DEVICES_PATH: Final = "/plugbay/v1/devices"
RECORDING_PATH: Final = "/plugbay/v1/recording"
DRAIN_PATH: Final = "/plugbay/v1/drain"
CORDON_PATH: Final = "/plugbay/v1/cordon"
UNCORDON_PATH: Final = "/plugbay/v1/uncordon"


def _refuse(stream: ClientStream) -> None:
    if stream.status >= 400:
        raise _refusal(stream.status, b"".join(stream.chunks))


def _refusal(status: int, body: bytes) -> RequestRefused:
    try:
        answer: object = json.loads(body)
    except ValueError:
        answer = None
    message = v1.text(answer, "message") or f"the node answered with HTTP status {status}"
    return RequestRefused(status, v1.text(answer, "reason"), message)


def _json_object(body: bytes) -> Json:
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise RequestRefused(500, "InternalError", "the node's answer is not a JSON object")
    return answer


def _watch_event(line: bytes) -> WatchEvent:
    event = _json_object(line)
    if event.get("type") == "ERROR":
        raise _refusal(v1.number(event, "object", "code") or 500, json.dumps(event.get("object")).encode())
    return WatchEvent(v1.text(event, "type"), v1.mapping(event, "object"))


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    pending = b""
    for chunk in chunks:
        *lines, pending = (pending + chunk).split(b"\n")
        yield from filter(None, lines)
    if pending:
        yield pending
