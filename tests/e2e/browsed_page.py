"""A node's page in Chromium: of a kubelet's directory, or of what is shown by hand."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from plugbay.kubelet.checkpoint import encode
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry
from plugbay.model.edits import ContainerEdits
from plugbay.observe.page.live import LiveNode
from plugbay.observe.page.serving import PageSettings, serve_node_page, serve_page
from plugbay.observe.places import NodePlaces, places_of
from plugbay.ops.clock import SystemClock
from plugbay.ops.listening import TcpAddress
from plugbay.wire.convert import edits_to_pb

playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or ""
GPU = "example.com/gpu"
HOSTILE = "<img src=x onerror=alert(1)>\u202e"
AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
SIZES = {"phone": (390, 844, "dark"), "desk": (1440, 900, "light"), "wall": (2560, 1440, "dark")}

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(not CHROMIUM, reason="there is no chromium")]


@pytest.fixture
def places(tmp_path: Path) -> NodePlaces:
    places = places_of(tmp_path, host=tmp_path / "host", is_own=False)
    places.kubelet.device_plugins.mkdir()
    write(places, "gpu-0", "gpu-1", "gpu-10", "gpu-2")
    name = places.host / "etc/hostname"
    name.parent.mkdir(parents=True)
    name.write_text("Node-7\n")
    return places


def write(places: NodePlaces, *devices: str, held: str = "gpu-1") -> None:
    response = edits_to_pb(ContainerEdits(env={"VISIBLE": "<script>alert(2)</script>"})).SerializeToString()
    entry = PodDevicesEntry("uid-1", "main", GPU, {0: [held]}, response)
    written = places.kubelet.checkpoint.with_name("new")
    written.write_bytes(encode(CheckpointData([entry], {GPU: list(devices)})))
    written.rename(places.kubelet.checkpoint)


@asynccontextmanager
async def browsed(
    places: NodePlaces,
    size: str,
    *,
    serving: AbstractAsyncContextManager[str] | None = None,
    complains_of: str = "",
    **settings: Any,
) -> AsyncIterator[Any]:
    """The page, loaded; whatever the browser complains of fails the test.

    Args:
        serving: serves another page than that of ``places``.
        complains_of: the only complaints that are expected have this in them.
    """
    own = serve_node_page(places, PageSettings(address=TcpAddress("127.0.0.1", 0)), SystemClock())
    width, height, scheme = SIZES[size]
    complaints: list[str] = []
    async with (
        asyncio.timeout(60),
        serving or own as url,
        playwright.async_playwright() as driver,
    ):
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = await browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, **settings
        )
        page = await context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        await page.goto(url)
        yield page
        await browser.close()
    assert not [each for each in complaints if not complains_of or complains_of not in each]


def serving(live: LiveNode, places: NodePlaces) -> AbstractAsyncContextManager[str]:
    """The page of what is shown by hand."""
    return serve_page(live, places, PageSettings(address=TcpAddress("127.0.0.1", 0)), SystemClock())


def labels(page: Any) -> Any:
    return page.locator("#devices .tile").evaluate_all("all => all.map(each => each.getAttribute('aria-label'))")
