"""The pages of a process over HTTP, whatever they are about."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from plugbay.errors import PathUnusable, SocketInUse
from plugbay.ops.http import serve_http
from plugbay.ops.listening import Address, TcpAddress, UnixAddress
from plugbay.ops.metrics import Metric, MetricKind
from plugbay.ops.pages import Pages, serve_pages
from plugbay.ops.routing import Router
from tests.contract.rigs.http_pages import LOOPBACK, Page, page


@dataclass
class Shown:
    """What the pages show; a test changes it between two requests."""

    count: int = 0
    problem: str = ""
    unready: list[str] = field(default_factory=list)

    @property
    def pages(self) -> Pages:
        return Pages(
            lambda: [Metric("m_total", MetricKind.COUNTER, "What is counted.", [({"a": "b"}, self.count)])],
            {"part": lambda: self.problem, "other": lambda: ""},
            lambda: self.unready,
            lambda: {"count": self.count},
        )


@asynccontextmanager
async def served(shown: Shown) -> AsyncIterator[Address]:
    async with serve_pages(shown.pages, LOOPBACK, max_age_s=0) as address:
        yield address


async def test_metrics_are_read_anew_in_prometheus_own_form() -> None:
    shown = Shown(count=1)
    async with served(shown) as at:
        first = await page(at, "/metrics")
        shown.count = 2
        second = await page(at, "/metrics")
    assert first.content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert (first.value("m_total", a="b"), second.value("m_total", a="b")) == (1, 2)


async def test_healthz_says_which_check_fails_and_why() -> None:
    shown = Shown()
    async with served(shown) as at:
        assert (await page(at, "/healthz"))[:2] == (200, "ok")
        assert (await page(at, "/healthz?verbose"))[:2] == (
            200,
            "[+]ping ok\n[+]part ok\n[+]other ok\nhealthz check passed\n",
        )
        assert (await page(at, "/healthz/part"))[:2] == (200, "ok")
        shown.problem = "it broke"
        assert (await page(at, "/healthz"))[:2] == (
            500,
            "[+]ping ok\n[-]part failed: it broke\n[+]other ok\nhealthz check failed\n",
        )
        assert (await page(at, "/healthz/part")).status == 500
        assert (await page(at, "/healthz/other"))[:2] == (200, "ok")
        assert (await page(at, "/livez")).status == 500
        unknown: Page = await page(at, "/healthz/none")
        assert unknown.status == 404
        assert unknown.json()["message"] == "there is no health check none; there are: ping, part, other"


async def test_readyz_gives_a_line_for_each_reason() -> None:
    shown = Shown(unready=["a: waits", "b: waits too"])
    async with served(shown) as at:
        assert (await page(at, "/readyz"))[:2] == (503, "a: waits\nb: waits too\n")
        shown.unready.clear()
        assert (await page(at, "/readyz"))[:2] == (200, "ok")


async def test_status_is_json() -> None:
    async with served(Shown(count=3)) as at:
        answer = await page(at, "/status")
    assert (answer.status, answer.content_type, answer.json()) == (200, "application/json", {"count": 3})


async def test_port_in_use_is_said_and_nothing_is_served() -> None:
    async with served(Shown()) as at:
        with pytest.raises(SocketInUse, match=r"another program is listening at 127\.0\.0\.1:\d+"):
            async with serve_http(Router(), at):
                pytest.fail("served beside another program")


async def test_empty_host_is_every_address_of_both_kinds() -> None:
    async with serve_pages(Shown().pages, TcpAddress("", 0)) as address:
        assert isinstance(address, TcpAddress)
        for host in ("127.0.0.1", "::1"):
            assert (await page(TcpAddress(host, address.port), "/healthz")).status == 200


async def test_address_that_is_not_ours_is_one_sentence(tmp_path: Path) -> None:
    for address in (TcpAddress("192.0.2.1", 9400), UnixAddress(tmp_path / "missing" / "s")):
        with pytest.raises(PathUnusable, match="cannot listen here"):
            async with serve_http(Router(), address):
                pytest.fail("served where nobody can")
