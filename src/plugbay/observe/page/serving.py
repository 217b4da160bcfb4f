"""Serve the page of a node."""

from __future__ import annotations

import asyncio
import functools
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Final

from plugbay.errors import CorruptCheckpoint
from plugbay.observe.following import followed
from plugbay.observe.joining.node import join
from plugbay.observe.page.examining import NodeExamination
from plugbay.observe.page.given import problem_of, read_given
from plugbay.observe.page.guard import SECURITY_HEADERS, PageGuard, is_loopback
from plugbay.observe.page.live import LiveNode
from plugbay.observe.page.table import table_page
from plugbay.observe.places import NodePlaces
from plugbay.observe.reading.node import read_node
from plugbay.observe.view import ObservedNode
from plugbay.ops.changes import Changes
from plugbay.ops.clock import Clock
from plugbay.ops.http import serve_http
from plugbay.ops.http_access import Access
from plugbay.ops.http_limits import PAGES
from plugbay.ops.listening import Address, TcpAddress
from plugbay.ops.routing import HttpError, Request, Response, Router, StreamResponse, json_response
from plugbay.ops.tasks import background
from plugbay.values import dataclass

_log = logging.getLogger(__name__)

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_LIMITS: Final = replace(PAGES, interval_s=0.001, connections=256, streams_yield=True)
"""A page that is opened asks for a dozen files at once; and browsers that have gone without a word must not keep others
out."""
_AGAIN_S: Final = 5.0
_HTML: Final = "text/html; charset=utf-8"
_TOKEN_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSettings:
    """How the page is served.

    Attributes:
        names: names of hosts, besides addresses and ``localhost``, under which it may be asked for.
    """

    address: TcpAddress
    names: tuple[str, ...] = ()


@asynccontextmanager
async def serve_node_page(
    places: NodePlaces, settings: PageSettings, clock: Clock, *, told: Changes | None = None
) -> AsyncIterator[str]:
    """Follow a node and serve its page until the context ends; ``told`` as in `followed`, else as `serve_page`."""

    async def read() -> ObservedNode:
        return await asyncio.to_thread(join, await read_node(places, now=clock.now()))

    live = LiveNode()
    async with serve_page(live, places, settings, clock) as url:
        async with background(keep_following(live, read, places, told=told), name="follow the node"):
            yield url


async def keep_following(
    live: LiveNode, read: Callable[[], Awaitable[ObservedNode]], places: NodePlaces, *, told: Changes | None = None
) -> None:
    """Follow a node without end. A fault of the page is logged: it must not end the node whose page it is."""
    while True:
        try:
            async with aclosing(followed(read, places, told=told)) as views:
                await live.follow(views)
        except Exception:  # supervising
            _log.exception("the node's page met a fault and stays as it is for %g s; the node goes on", _AGAIN_S)
            await asyncio.sleep(_AGAIN_S)


@asynccontextmanager
async def serve_page(live: LiveNode, places: NodePlaces, settings: PageSettings, clock: Clock) -> AsyncIterator[str]:
    """Serve the page of a node that is followed elsewhere, until the context ends; yields the address for a browser.

    Whoever can connect from another machine needs the token in that address, which is new at every start.

    Raises:
        SocketInUse, PathUnusable: the address cannot be listened at.
        UsageError: h11 is not installed.
    """
    token = "" if is_loopback(settings.address.host) else secrets.token_urlsafe(_TOKEN_BYTES)
    guard = PageGuard(settings.names, token=token)
    examination = NodeExamination(places, clock)
    router = _Answers(live, places, examination).router(f"/{token}" if token else "")
    async with serve_http(router, settings.address, limits=_LIMITS, access=Access(check=guard.check)) as bound:
        try:
            yield f"http://{_shown(bound, settings.address)}/{f'{token}/' if token else ''}"
        finally:
            await examination.close()


def _shown(bound: Address, asked: TcpAddress) -> str:
    assert isinstance(bound, TcpAddress)
    return str(TcpAddress(asked.host or "localhost", bound.port))


class _Answers:
    def __init__(self, live: LiveNode, places: NodePlaces, examination: NodeExamination) -> None:
        self._live = live
        self._places = places
        self._examination = examination

    def router(self, prefix: str) -> Router:
        router = Router()
        router.add("GET", prefix or "/", self._page)
        router.add("GET", f"{prefix}/table", self._table)
        router.add("GET", f"{prefix}/state.json", self._state)
        router.add("GET", f"{prefix}/events", self._events)
        router.add("GET", f"{prefix}/pods/{{uid}}", self._pod)
        router.add("GET", f"{prefix}/doctor.json", self._doctor)
        for name in _asset_names():
            router.add("GET", f"{prefix}/{name}", functools.partial(self._asset, name))
        return router

    async def _page(self, request: Request) -> Response:
        if not request.path.endswith("/"):  # its links are relative
            return Response(308, headers=(("Location", f"{request.path}/"), *SECURITY_HEADERS))
        return Response(body=_asset("page.html"), content_type=_HTML, headers=SECURITY_HEADERS)

    async def _asset(self, name: str, request: Request) -> Response:
        return Response(body=_asset(name), content_type=_TYPES[Path(name).suffix], headers=SECURITY_HEADERS)

    async def _table(self, request: Request) -> Response:
        view = self._live.view
        if view is None:
            raise HttpError(503, "ServiceUnavailable", "the node is being read for the first time: ask again")
        search = request.query.get("search", "")
        text = await asyncio.to_thread(table_page, view, notes=self._live.notes, search=search)
        return Response(body=text.encode(errors="replace"), content_type=_HTML, headers=SECURITY_HEADERS)

    async def _state(self, request: Request) -> Response:
        body = await self._live.state()
        return Response(body=body, content_type="application/json", headers=SECURITY_HEADERS)

    async def _events(self, request: Request) -> StreamResponse:
        return StreamResponse(
            self._live.stream(),
            content_type="text/event-stream",
            headers=SECURITY_HEADERS,
            write_s=_LIMITS.write_s,
        )

    async def _pod(self, request: Request) -> Response:
        checkpoint = self._places.kubelet.checkpoint
        try:
            given = await asyncio.to_thread(read_given, checkpoint, request.params["uid"])
        except (OSError, CorruptCheckpoint) as error:
            return _json({"given": [], "problem": f"{checkpoint} cannot be read: {problem_of(error)}"})
        return _json({"given": given, "problem": ""})

    async def _doctor(self, request: Request) -> Response:
        """Answer with the findings of `plugbay doctor`."""
        return _json(await self._examination.diagnosis())


def _json(value: object) -> Response:
    return replace(json_response(value), headers=SECURITY_HEADERS)


@functools.cache
def _asset_names() -> tuple[str, ...]:
    directory = files("plugbay.observe.page") / "assets"
    return tuple(sorted(each.name for each in directory.iterdir() if Path(each.name).suffix in _TYPES))


@functools.cache
def _asset(name: str) -> bytes:
    return (files("plugbay.observe.page") / "assets" / name).read_bytes()
