"""The pages by which a process is operated: ``/metrics``, ``/healthz``, ``/livez``, ``/readyz``, ``/status``.

They only read. A page is made once for all readers within a second, and in slices, so that no reader keeps the process
from its duties.

Source of the form of ``/healthz``: Kubernetes 1.36 ``apiserver/pkg/server/healthz``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from typing import Final, Generic, TypeVar

from plugbay.errors.wording import on_one_line
from plugbay.ops.http import serve_http
from plugbay.ops.http_limits import PAGES
from plugbay.ops.listening import Address
from plugbay.ops.metrics import CONTENT_TYPE, Metric, exposition
from plugbay.ops.routing import JSON, HttpError, Request, Response, Router
from plugbay.ops.slices import joined, json_pieces
from plugbay.values import dataclass

MAX_AGE_S: Final = 1.0
_NO_STORE: Final = (("Cache-Control", "no-cache, no-store, must-revalidate"),)


_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Pages:
    """The content of the pages.

    Attributes:
        metrics: gives the metrics that are known at once.
        checks: by name, functions that tell what is wrong with a part of the process, or "". ``/healthz`` shows
            them after ``ping``, which passes whenever there is an answer.
        unready: gives a line for each thing that keeps the process from doing its work.
        status: gives the content of ``/status``: dicts, lists, scalars, and iterators in place of long lists.
        measured: gives the metrics that have to be asked for, within some seconds; None for none.
        texts: gives metrics that have been made into text already, for those that are too many to make at each scrape.
        notes: gives a line for each thing that is wrong with a process that does its work all the same.
        readiness: the paths of the page that says whether the process does its work.
    """

    metrics: Callable[[], Iterable[Metric]]
    checks: Mapping[str, Callable[[], str]]
    unready: Callable[[], Sequence[str]]
    status: Callable[[], object]
    measured: Callable[[], Awaitable[Iterable[Metric]]] | None = None
    texts: Callable[[], Iterable[str]] = tuple
    notes: Callable[[], Sequence[str]] = tuple
    readiness: Sequence[str] = ("/readyz",)


@asynccontextmanager
async def serve_pages(pages: Pages, address: Address, *, max_age_s: float = MAX_AGE_S) -> AsyncIterator[Address]:
    """Serve until the block ends; yields the address, with the port that the kernel chose.

    Args:
        max_age_s: how old a page may be.

    Raises:
        As `plugbay.ops.http.serve_http`.
    """
    async with serve_http(pages_router(pages, max_age_s=max_age_s), address, limits=PAGES) as bound:
        yield bound


def pages_router(pages: Pages, *, max_age_s: float = MAX_AGE_S) -> Router:
    """The pages by their paths; ``max_age_s`` is how old a page may be."""
    return _Answers(pages, max_age_s).router()


class _Shared(Generic[_Value]):
    """A value for all readers: made when one asks and the last one is too old."""

    def __init__(self, make: Callable[[], Awaitable[_Value]], max_age_s: float) -> None:
        self._make = make
        self._max_age_s = max_age_s
        self._made: tuple[float, _Value] | None = None
        self._making = asyncio.Lock()

    async def value(self) -> _Value:
        now = asyncio.get_running_loop().time
        async with self._making:
            if self._made is None or now() >= self._made[0] + self._max_age_s:
                value = await self._make()
                self._made = now(), value
            return self._made[1]


class _Answers:
    def __init__(self, pages: Pages, max_age_s: float) -> None:
        async def metrics() -> bytes:
            measured = () if pages.measured is None else await pages.measured()
            return (await joined(chain(exposition(chain(pages.metrics(), measured)), pages.texts()))).encode()

        async def status() -> bytes:
            return (await joined(json_pieces(pages.status()))).encode() + b"\n"

        async def problems() -> Mapping[str, str]:
            return {"ping": "", **{name: problem() for name, problem in pages.checks.items()}}

        async def unready() -> tuple[Sequence[str], Sequence[str]]:
            return tuple(pages.unready()), tuple(pages.notes())

        self._readiness = pages.readiness
        self._metrics = _Shared(metrics, max_age_s)
        self._status = _Shared(status, max_age_s)
        self._problems = _Shared(problems, max_age_s)
        self._unready = _Shared(unready, max_age_s)

    def router(self) -> Router:
        router = Router()
        for template, page in (
            ("/metrics", self.metrics),
            ("/healthz", self.health),
            ("/healthz/{check}", self.one_check),
            ("/livez", self.health),
            *((path, self.readiness) for path in self._readiness),
            ("/status", self.status),
        ):
            router.add("GET", template, page)
        return router

    async def metrics(self, request: Request) -> Response:
        return Response(body=await self._metrics.value(), content_type=CONTENT_TYPE)

    async def health(self, request: Request) -> Response:
        return _checked(await self._problems.value(), request)

    async def one_check(self, request: Request) -> Response:
        name = request.params["check"]
        problems = await self._problems.value()
        if name not in problems:
            raise HttpError(404, "NotFound", f"there is no health check {name}; there are: {', '.join(problems)}")
        return _checked({name: problems[name]}, request)

    async def readiness(self, request: Request) -> Response:
        unready, notes = await self._unready.value()
        if unready:
            return _text(503, "".join(f"{on_one_line(line)}\n" for line in (*unready, *notes)))
        return _text(200, "\n".join(("ok", *map(on_one_line, notes))))

    async def status(self, request: Request) -> Response:
        return Response(body=await self._status.value(), content_type=JSON)


def _checked(problems: Mapping[str, str], request: Request) -> Response:
    """``ok``, or a line for each check if one fails or ``?verbose`` asks for them."""
    lines = [
        f"[-]{name} failed: {on_one_line(problem)}" if problem else f"[+]{name} ok"
        for name, problem in problems.items()
    ]
    if any(problems.values()):
        return _text(500, "\n".join([*lines, "healthz check failed\n"]))
    return _text(200, "\n".join([*lines, "healthz check passed\n"]) if "verbose" in request.query else "ok")


def _text(status: int, text: str) -> Response:
    return Response(status, text.encode(errors="backslashreplace"), headers=_NO_STORE)
