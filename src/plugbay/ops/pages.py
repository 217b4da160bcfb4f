"""The pages by which a process is operated: ``/metrics``, ``/healthz``, ``/readyz``, ``/status``.

They only read. Source of the form of ``/healthz``: Kubernetes 1.36 ``apiserver/pkg/server/healthz``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from plugbay.ops.metrics import CONTENT_TYPE, Metric, exposition
from plugbay.ops.routing import HttpError, Request, Response, Router, json_response

_NO_STORE: Final = (("Cache-Control", "no-cache, no-store, must-revalidate"),)


@dataclass(frozen=True, slots=True)
class Pages:
    """What the pages show; each is asked for anew at every request.

    Attributes:
        metrics: all there are.
        checks: by name, what is wrong with a part of the process, empty if nothing; for ``/healthz``, beside ``ping``,
            which any answer proves.
        unready: a line for each thing that keeps the process from doing its work.
        status: all about it, made of dicts, lists and scalars.
    """

    metrics: Callable[[], Iterable[Metric]]
    checks: Mapping[str, Callable[[], str]]
    unready: Callable[[], Sequence[str]]
    status: Callable[[], object]

    def router(self) -> Router:
        router = Router()
        for template, page in (
            ("/metrics", self._metrics),
            ("/healthz", self._health),
            ("/healthz/{check}", self._one_check),
            ("/readyz", self._readiness),
            ("/status", self._status),
        ):
            router.add("GET", template, page)
        return router

    async def _metrics(self, request: Request) -> Response:
        return Response(body=exposition(self.metrics()), content_type=CONTENT_TYPE)

    async def _health(self, request: Request) -> Response:
        return _checked({"ping": "", **self._problems()}, request)

    async def _one_check(self, request: Request) -> Response:
        name = request.params["check"]
        problems = {"ping": "", **self._problems()}
        if name not in problems:
            raise HttpError(404, "NotFound", f"there is no health check {name}; there are: {', '.join(problems)}")
        return _checked({name: problems[name]}, request)

    async def _readiness(self, request: Request) -> Response:
        unready = self.unready()
        return _text(503, "".join(f"{line}\n" for line in unready)) if unready else _text(200, "ok")

    async def _status(self, request: Request) -> Response:
        return json_response(self.status())

    def _problems(self) -> dict[str, str]:
        return {name: problem() for name, problem in self.checks.items()}


def _checked(problems: Mapping[str, str], request: Request) -> Response:
    """``ok``, or a line for each check if one fails or ``?verbose`` asks for them."""
    lines = [f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok" for name, problem in problems.items()]
    if any(problems.values()):
        return _text(500, "\n".join([*lines, "healthz check failed\n"]))
    return _text(200, "\n".join([*lines, "healthz check passed\n"]) if "verbose" in request.query else "ok")


def _text(status: int, text: str) -> Response:
    return Response(status, text.encode(errors="backslashreplace"), headers=_NO_STORE)
