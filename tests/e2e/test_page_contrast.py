"""The contrast of every text on the page in a real browser, light and dark, at every size.

Source: WCAG 2.2, success criteria 1.4.3 (texts) and 1.4.11 (what tells the state of a device), level AA.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from plugbay.observe.page.live import LiveNode
from plugbay.observe.page.serving import PageSettings, serve_page
from plugbay.observe.places import NodePlaces, places_of
from plugbay.observe.view import (
    DeviceHealth,
    DeviceHolder,
    DeviceView,
    HealthWord,
    ObservedNode,
    PluginView,
    ReadingProblem,
    RejectedPod,
    ResourceView,
    SocketView,
    Witness,
)
from plugbay.ops.clock import SystemClock
from plugbay.ops.listening import TcpAddress
from tests.e2e.browsed_page import CHROMIUM, GPU, SIZES, playwright, pytestmark

__all__ = ["pytestmark"]
AT: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
_MEASURE: Final = """
() => {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const channels = (colour) => {  // as the browser paints it, whatever the notation
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((each) => top[each] * top[3] + below[each] * (1 - top[3])).concat(1);
  const path = (element) => {
    const all = [];
    for (let each = element; each; each = each.parentElement) all.unshift(each);
    return all;
  };
  const ground = (element) => path(element).reduce(
    (below, each) => over(channels(getComputedStyle(each).backgroundColor), below), [255, 255, 255, 1]);
  const luminance = (colour) => {
    const [r, g, b] = colour.map((each) => each / 255).map(
      (each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05);
  };
  const seen = (element) => element.checkVisibility({ visibilityProperty: true }) && !element.closest(".hidden, .skip");
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.data.trim();
    if (!text || !seen(element) || element.closest("script, style, noscript, title")) continue;
    const style = getComputedStyle(element);
    const opacity = path(element).reduce((all, each) => all * getComputedStyle(each).opacity, 1);
    const tile = element.closest(".tile.releasing");  // both stripes count
    const hatch = tile ? channels(getComputedStyle(tile).getPropertyValue("--hatch")) : [0, 0, 0, 0];
    const [r, g, b, a] = channels(style.color);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    for (const below of [ground(element), over(hatch, ground(element))]) {
      found.push([text, contrast(over([r, g, b, a * opacity], below), below), isLarge ? 3 : 4.5]);
    }
  }
  for (const tile of document.querySelectorAll("#devices .tile")) {
    const around = ground(tile.parentElement);
    const { borderTopColor, backgroundColor } = getComputedStyle(tile);
    const told = [borderTopColor, backgroundColor].map((each) => contrast(over(channels(each), around), around));
    found.push([`edge of ${tile.getAttribute("aria-label")}`, Math.max(...told), 3]);
  }
  return found;
}
"""


def node() -> ObservedNode:
    """Devices in every state, and all that a page may have to say."""
    holder = DeviceHolder(container="main", pod="train-0", namespace="team", since=AT)
    healths = [DeviceHealth(word=word, reason="Burnt", witness=Witness.NODE) for word in HealthWord]
    devices = [
        DeviceView(
            id=f"{health.word.value}-{held}-{releasing}",
            health=health,
            numa_nodes=(0,),
            holders=(holder,) if held else (),
            is_releasing=releasing,
        )
        for health in healths
        for held in (False, True)
        for releasing in (False, True)
    ]
    plugins = [PluginView(state=state, socket="gpu.sock", since=AT, reason="refused") for state in ("Live", "Stopped")]
    return ObservedNode(
        taken=AT,
        root="/k",
        resources=(
            ResourceView(name=GPU, capacity=9, allocatable=4, devices=tuple(devices), plugin=plugins[0]),
            ResourceView(name="example.com/fpga", capacity=1, allocatable=0, plugin=plugins[1]),
        ),
        rejected=(RejectedPod(namespace="lab", pod="train", uid="u2", reason="OutOfpods", message="none left", at=AT),),
        sockets=(SocketView(name="gpu.sock", made=AT), SocketView(name="other.sock", made=AT, pid=7, command="other")),
    )


@pytest.fixture
def places(tmp_path: Path) -> NodePlaces:
    return places_of(tmp_path, host=tmp_path / "host", is_own=False)


@asynccontextmanager
async def opened(places: NodePlaces, size: str, scheme: str) -> AsyncIterator[Any]:
    live = LiveNode()
    seen = node()
    await live.show(ObservedNode(taken=AT, root="/k"))
    await live.show(seen)
    await live.show(replace(seen, problems=(ReadingProblem(Witness.POD_RESOURCES, "the kubelet does not run"),)))
    width, height, _ = SIZES[size]
    settings = PageSettings(address=TcpAddress("127.0.0.1", 0))
    async with serve_page(live, places, settings, SystemClock()) as url, playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
        )
        await page.goto(url)
        await page.locator("#devices .tile").first.wait_for()
        yield page
        await browser.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
async def test_texts_and_states_can_be_told_from_their_ground(places: NodePlaces, size: str, scheme: str) -> None:
    async with opened(places, size, scheme) as page:
        found = await page.evaluate(_MEASURE)
        await page.get_by_role("button", name="Examine the node").click()
        await page.locator(".finding").first.wait_for()
        found += await page.evaluate(_MEASURE)
        await page.locator("#devices .tile.held").first.click()
        await page.get_by_role("dialog").wait_for()
        found += await page.evaluate(_MEASURE)
        await page.goto(f"{page.url}table")
        found += await page.evaluate(_MEASURE)
    assert len(found) > 100
    assert {(text, round(ratio, 2)) for text, ratio, least in found if ratio < least} == set()
