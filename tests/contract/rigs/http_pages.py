"""Asking a process's pages over real sockets, as a probe or Prometheus does."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from plugbay.ops.listening import Address, TcpAddress

DEADLINE_S = 20
LOOPBACK = TcpAddress("127.0.0.1", 0)


class Page(NamedTuple):
    status: int
    text: str
    content_type: str

    def json(self) -> Any:
        return json.loads(self.text)

    def value(self, name: str, **labels: str) -> float:
        """The one sample of this name with at least these labels."""
        [value] = self.samples(name, **labels).values()
        return value

    def samples(self, name: str, **labels: str) -> Mapping[tuple[tuple[str, str], ...], float]:
        """All samples of this name with at least these labels, by all of their labels."""
        return {
            tuple(sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(self.text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        }


async def page(at: Address, path: str) -> Page:
    """GET of ``path``."""
    assert isinstance(at, TcpAddress)
    return await asyncio.to_thread(_get, at, path)


async def page_once(at: Address, path: str, status: int) -> Page:
    """The page as soon as it is answered with ``status``."""
    return await page_until(at, path, lambda page: page.status == status)


async def page_until(at: Address, path: str, wanted: Callable[[Page], bool]) -> Page:
    """The page as soon as it is as ``wanted``."""
    async with asyncio.timeout(DEADLINE_S):
        while not wanted(found := await page(at, path)):  # noqa: ASYNC110  # as a probe asks, which nobody tells
            await asyncio.sleep(0.01)
        return found


def _get(at: TcpAddress, path: str) -> Page:
    connection = http.client.HTTPConnection(at.host, at.port, timeout=DEADLINE_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return Page(response.status, response.read().decode(), response.headers["Content-Type"])
    finally:
        connection.close()
