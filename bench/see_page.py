"""The page of a node in Chromium: how soon it is live, whether it stays smooth, how late events are, its idle cost.

The page is served by ``plugbay export --ui`` beside the kubelet that `bench.see` plays. Moments are the browser's own:
a page is live once all that was sent is shown; an event is there in the first frame after it was put on the page. The
longest task is that of the page's main thread after it was live, by Chromium's trace of its tasks, while devices are
given and fail, one and a thousand at a time, and while a user searches, scrolls, opens a device and changes the theme.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.figures import Figure, Pace
from bench.processes import cpu_ms_per_min, cpu_seconds, descendants, python, rss_mb
from tests.contract.rigs.seen_kubelet import SeenKubelet, entry, offered

if TYPE_CHECKING:
    from asyncio.subprocess import Process

_LIVE_MS: Final = 300
_TASK_MS: Final = 50
_EVENT_MS: Final = 200
_IDLE_MS: Final = 50
_RSS_MB: Final = 60
_REST_S: Final = 40
"""A browser that has loaded a page tidies up for a while."""
_FEW: Final = 64
_MANY: Final = 10_000
_RUN_TASK: Final = ("ThreadControllerImpl::RunTask", "RunTask")
_TRACED: Final = ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline", "__metadata"]
_WATCH: Final = """
  window.arrived = [];
  const ready = new MutationObserver(() => {
    if (document.documentElement.dataset.ready) requestAnimationFrame(() => { window.liveAt ??= performance.now(); });
  });
  ready.observe(document, { subtree: true, attributes: true, attributeFilter: ["data-ready"] });
  document.addEventListener("DOMContentLoaded", () => {
    const told = new MutationObserver(() => requestAnimationFrame(() => window.arrived.push(Date.now())));
    told.observe(document.getElementById("events"), { childList: true });
  });
"""


async def measure_page(pace: Pace, directory: Path) -> AsyncIterator[Figure]:
    """The figures of the page; none where there is no browser."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("bench: the page is not measured: there is no chromium", file=sys.stderr)
        return
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            for count in (_FEW, _MANY):
                async with _served(directory / f"p{count}", count) as node:
                    async for figure in _loads(browser, node, pace):
                        yield figure
                    async for figure in _events(browser, node, pace):
                        yield figure
                    if count == _MANY:
                        async for figure in _longest_task(browser, node):
                            yield figure
                        yield Figure(f"page_rss_mb_{count}", rss_mb(node.process.pid), "MB", _RSS_MB)
                    if count == _FEW:
                        async for figure in _idle(browser, node, pace):
                            yield figure
        finally:
            await browser.close()


class _Node:
    """A stock kubelet's files, and the process that serves the page; half of the devices are held, ten by a pod."""

    def __init__(self, base: Path, count: int) -> None:
        self.kubelet = SeenKubelet(base)
        self.ids = [f"gpu-{number:05}" for number in range(count)]
        self.url = ""
        self.process: Process
        for number in range(count // 20):
            self.kubelet.add_pod(_uid(number), f"pod-{number}")
        self.write()

    def write(self, *, failed: int = 0, shift: int = 0) -> float:
        """Write a checkpoint, as a kubelet does; returns the moment in milliseconds since 1970.

        Args:
            failed: how many devices are not healthy.
            shift: the first device that is held.
        """
        entries = [
            entry(_uid(number), "main", *self.ids[shift + 10 * number : shift + 10 * number + 10])
            for number in range(len(self.ids) // 20)
        ]
        self.kubelet.devices = offered(*self.ids[failed:])
        self.kubelet.write_checkpoint(entries, self.ids[failed:])
        return time.time() * 1000


def _uid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


@asynccontextmanager
async def _served(base: Path, count: int) -> AsyncIterator[_Node]:
    node = _Node(base, count)
    log = base / "log"
    command = ("-m", "plugbay", "export", "--listen", f"unix:{base}/export.sock", "--ui", "127.0.0.1:0")
    with log.open("w") as written:
        async with node.kubelet.answering(), python(*command, *node.kubelet.argv, log=written) as process:
            node.process = process
            async with asyncio.timeout(60):
                while not (found := re.search(r"page for browsers is at (?P<url>\S+)", log.read_text())):
                    await asyncio.sleep(0.05)
            node.url = found["url"]
            await asyncio.sleep(2)  # it has read the node
            yield node


@asynccontextmanager
async def _opened(browser: Any, node: _Node) -> AsyncIterator[Any]:
    context = await browser.new_context(viewport={"width": 1440, "height": 900})
    try:
        page = await context.new_page()
        await page.add_init_script(_WATCH)
        await page.goto(node.url)
        await _value(page, "window.liveAt")
        yield page
    finally:
        await context.close()


async def _value(page: Any, expression: str) -> float:
    """A number of the page, once it has it. The page's policy keeps the driver's own ways of waiting out."""
    async with asyncio.timeout(30):
        while (found := await page.evaluate(expression)) is None:
            await asyncio.sleep(0.05)
    return float(found)


async def _loads(browser: Any, node: _Node, pace: Pace) -> AsyncIterator[Figure]:
    taken = []
    for _ in range(11 if pace is Pace.FULL else 3):
        async with _opened(browser, node) as page:
            taken.append(await _value(page, "window.liveAt"))
    target = _LIVE_MS if len(node.ids) == _FEW else None
    yield Figure(f"page_live_ms_{len(node.ids)}", statistics.median(taken), "ms", target)


async def _events(browser: Any, node: _Node, pace: Pace) -> AsyncIterator[Figure]:
    taken = []
    async with _opened(browser, node) as page:
        for turn in range(21 if pace is Pace.FULL else 5):
            await asyncio.sleep(1.3 + turn % 7 / 10)  # quiet, as most nodes are nearly always
            await page.evaluate("window.arrived.length = 0")
            wrote = node.write(failed=(turn + 1) % 2)
            taken.append(await _value(page, "window.arrived[0]") - wrote)
    target = _EVENT_MS if len(node.ids) == _FEW else None
    yield Figure(f"page_event_ms_{len(node.ids)}", statistics.median(taken), "ms", target)
    yield Figure(f"page_event_worst_ms_{len(node.ids)}", max(taken), "ms", None)


async def _longest_task(browser: Any, node: _Node) -> AsyncIterator[Figure]:
    async with _opened(browser, node) as page:
        await asyncio.sleep(2)
        await browser.start_tracing(page=page, categories=_TRACED)
        for settings in ({"failed": 1}, {"shift": 1000}, {"failed": 1000}, {}):
            node.write(**settings)
            await asyncio.sleep(2)
        await _use(page)
        trace = json.loads(await browser.stop_tracing())
    tasks = _tasks(trace["traceEvents"])
    yield Figure(f"page_longest_task_ms_{len(node.ids)}", max(each["dur"] for each in tasks) / 1000, "ms", _TASK_MS)
    # The same without what other processes took of the machine meanwhile.
    computed = max(each["tdur"] for each in tasks) / 1000
    yield Figure(f"page_longest_task_cpu_ms_{len(node.ids)}", computed, "ms", None)


async def _use(page: Any) -> None:
    """Use the page as a user does."""
    await page.keyboard.press("/")
    await page.keyboard.type("gpu-000", delay=80)
    await page.keyboard.press("Escape")
    await page.locator("#search").fill("")
    for _ in range(20):
        await page.mouse.move(500, 600)
        await page.mouse.wheel(0, 900)
        await asyncio.sleep(0.1)
    await page.mouse.click(500, 600)
    await page.keyboard.press("Escape")
    await page.locator("#theme").click()
    await asyncio.sleep(1)


def _tasks(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tasks of the main threads of pages; times are in microseconds."""
    mains = {
        (each["pid"], each["tid"])
        for each in events
        if each["name"] == "thread_name" and each["args"]["name"] == "CrRendererMain"
    }
    tasks = [
        each for each in events if each["name"] in _RUN_TASK and (each["pid"], each["tid"]) in mains and "tdur" in each
    ]
    if not tasks:
        raise RuntimeError("the trace of the browser has no task of the page")
    return tasks


async def _idle(browser: Any, node: _Node, pace: Pace) -> AsyncIterator[Figure]:
    """Processor time in a minute with a page open: of the whole server, and what runs and draws the page.

    Nothing is subtracted: a difference of two readings would be within whatever noise the machine makes.
    """
    windows, window_s = (3, 60) if pace is Pace.FULL else (1, 30)  # the page tells ages anew every 30 s
    await asyncio.sleep(_REST_S)
    (without,) = await cpu_ms_per_min(window_s, node.process.pid)
    async with _opened(browser, node) as page:
        await asyncio.sleep(_REST_S)
        theirs = [await _renderer(page), *_processes(b"--type=gpu-process")]
        taken = [await cpu_ms_per_min(window_s, node.process.pid, *theirs) for _ in range(windows)]
    yield Figure("page_idle_server_ms_a_minute", statistics.median(each[0] for each in taken), "ms", _IDLE_MS)
    yield Figure("page_idle_browser_ms_a_minute", statistics.median(sum(each[1:]) for each in taken), "ms", _IDLE_MS)
    yield Figure("export_idle_ms_a_minute", without, "ms", None)


async def _renderer(page: Any) -> int:
    """The process that runs the page: the one that is busy while the page is. Chromium has others in reserve."""
    pids = _processes(b"--type=renderer")
    before = [cpu_seconds(pid) for pid in pids]
    await page.evaluate("() => { for (const end = performance.now() + 500; performance.now() < end;); }")
    return max(zip(pids, before, strict=True), key=lambda each: cpu_seconds(each[0]) - each[1])[0]


def _processes(kind: bytes) -> list[int]:
    """Chromium's processes of a kind."""
    found = []
    for pid in descendants(os.getpid()):
        with suppress(OSError):  # it has ended
            if kind in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found
