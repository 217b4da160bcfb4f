"""The page in a real browser, at three sizes: live, legible, without errors, for keyboards and screen readers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from plugbay.observe.page.live import LiveNode
from plugbay.observe.page.serving import PageSettings, serve_node_page
from plugbay.observe.places import NodePlaces
from plugbay.observe.view import (
    DeviceHealth,
    DeviceHolder,
    DeviceView,
    HealthWord,
    ObservedNode,
    PluginView,
    ReadingProblem,
    ResourceView,
    Witness,
)
from plugbay.ops.clock import SystemClock
from plugbay.ops.listening import TcpAddress
from tests.e2e.browsed_page import (
    AT,
    GPU,
    HOSTILE,
    SIZES,
    browsed,
    labels,
    places,
    playwright,
    pytestmark,
    serving,
    write,
)

__all__ = ["places", "pytestmark"]


_SEEN = """
tiles => tiles.map(tile => [...tile.children].map(line => {
  const box = tile.getBoundingClientRect();
  const [head, tail] = line.children.length ? line.children : [line, line];
  const [start, end] = [head.getBoundingClientRect(), tail.getBoundingClientRect()];
  const isWhole = head.scrollWidth <= head.clientWidth;
  return {
    end: isWhole ? line.textContent : tail.textContent,
    isInside: start.left >= box.left && start.width > 8 && end.right <= box.right && (isWhole || tail !== head),
  };
}))
"""


@pytest.mark.parametrize("size", SIZES)
async def test_tiles_follow_the_node_at_every_size(places: NodePlaces, size: str) -> None:
    async with browsed(places, size) as page:
        tile = page.get_by_role("button", name="gpu-1, example.com/gpu, Healthy, held by uid-1/main")
        await tile.wait_for()
        names = [label.partition(",")[0] for label in await labels(page)]
        assert names == ["gpu-1", "gpu-0", "gpu-2", "gpu-10"]  # a NUMA node, then what has none
        write(places, "gpu-0", "gpu-1", "gpu-2", HOSTILE, held="gpu-2")
        await page.get_by_role("button", name="gpu-2, example.com/gpu, Healthy, held by uid-1/main").wait_for()
        assert any(label.startswith("<img src=x onerror=alert(1)>\\u202e") for label in await labels(page))
        await page.locator("#events").get_by_text("gpu-2 was given to uid-1/main").wait_for()
        wider = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert not await page.evaluate(wider), "the page scrolls sideways"


async def test_keyboard_and_screen_reader_reach_all(places: NodePlaces) -> None:
    async with browsed(places, "desk") as page:
        await page.get_by_role("button", name="gpu-0, ").wait_for()
        await page.keyboard.press("/")
        await page.keyboard.type("uid-1")
        dim = page.locator("#devices .tile.dim")
        await playwright.expect(dim).to_have_count(3)
        assert await page.get_by_role("group", name=f"{GPU}, NUMA node 0").count() == 1
        await page.locator("#devices .tile[tabindex='0']").first.focus()
        await page.keyboard.press("End")
        await page.keyboard.press("ArrowLeft")
        await page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog")
        await dialog.wait_for()
        await page.keyboard.press("Escape")
        await playwright.expect(dialog).to_have_count(0)
        assert await page.title() == "Devices of node-7"
        tree = await page.locator("body").aria_snapshot()
        for part in (
            'heading "node-7"',
            'searchbox "Search devices and pods"',
            'heading "Resources"',
            "What happened",
        ):
            assert part in tree, tree


@pytest.mark.parametrize("size", SIZES)
async def test_tiles_tell_devices_and_pods_with_long_names_apart(places: NodePlaces, size: str) -> None:
    """What tells them apart stands at the end of names, or behind many letters that are alike."""
    jobs = [f"nvidia-training-job-worker-{number}-7f9c6b5d4-x2x8{letter}" for number, letter in enumerate("qwz")]
    uuids = ("8b3f7c1e-9d52-4e7a-b1c4-6f0a2d9e5b71", "1f6e0d24-5a83-49c7-8e15-c47b90a3f2d8", "c05d9b67-3e18-4f2a-9a76")
    gpus = tuple(
        DeviceView(
            id=f"GPU-{uuid}",
            numa_nodes=(0,),
            holders=(DeviceHolder(container="main", namespace="kube-system", pod=pod, uid=pod),),
        )
        for uuid, pod in zip(uuids, jobs, strict=True)
    )
    ports = tuple(DeviceView(id=f"usb-FTDI_FT232R_USB_UART_A9{each}-if00-port0") for each in ("00VX0", "00VX1"))
    resources = (ResourceView(name=GPU, devices=gpus), ResourceView(name="example.com/port", devices=ports))
    live = LiveNode()
    await live.show(ObservedNode(taken=AT, root="/k", resources=resources))
    async with browsed(places, size, serving=serving(live, places)) as page:
        await page.locator("#devices .tile").first.wait_for()
        seen = await page.locator("#devices .tile").evaluate_all(_SEEN)
        whole = [line for tile in seen for line in tile]
        assert all(line["isInside"] for line in whole), whole
        assert len({tuple(line["end"] for line in tile) for tile in seen}) == len(seen)
        assert {tile[2]["end"] for tile in seen if len(tile) == 4} == {job[-len("0-7f9c6b5d4-x2x8q") :] for job in jobs}
        assert {tile[3]["end"] for tile in seen if len(tile) == 4} == {"kube-system"}


async def test_every_device_is_counted_once_and_none_is_left_out(places: NodePlaces) -> None:
    """A plugin that is gone leaves devices of unknown health, which are neither free nor unhealthy."""
    holder = DeviceHolder(container="main", namespace="x", pod="p", uid="u")
    words = {0: HealthWord.UNHEALTHY, 1: HealthWord.UNHEALTHY, 18: HealthWord.UNHEALTHY, 19: HealthWord.UNKNOWN}
    gpus = [
        DeviceView(
            id=f"{number}",
            health=DeviceHealth(word=words.get(number, HealthWord.HEALTHY)),
            holders=(holder,) if number < 5 else (),
        )
        for number in range(20)
    ]
    gone = PluginView(state="Gone")
    ports = tuple(DeviceView(id=f"p{number}") for number in range(7))
    live = LiveNode()
    await live.show(
        ObservedNode(
            taken=AT,
            root="/k",
            resources=(
                ResourceView(name=GPU, capacity=20, allocatable=16, devices=tuple(gpus)),
                ResourceView(name="example.com/port", capacity=7, allocatable=0, devices=ports, plugin=gone),
            ),
        )
    )
    async with browsed(places, "desk", serving=serving(live, places)) as page:
        bar = page.locator(f".resource[data-key='{GPU}'] .bar")
        await bar.wait_for()
        shares = await bar.evaluate(
            "bar => [...bar.children].map(each => Math.round(100 * each.offsetWidth / bar.clientWidth))"
        )
        assert shares == [15, 10, 65, 0, 5, 5]  # held, held and unhealthy, free, releasing, unknown, unhealthy
        figures = dict(
            await page.locator(".figure").evaluate_all("all => all.map(each => each.innerText.split('\\n'))")
        )
        assert figures == {"27": "devices", "5": "held", "13": "free", "3": "unhealthy", "8": "of unknown health"} | {
            "1": "pod with devices"
        }
        assert await page.locator(".figure.unsure").count() == 1


async def test_the_last_hour_is_as_wide_as_an_hour_however_little_of_it_is_known(places: NodePlaces) -> None:
    live = LiveNode()
    began = SystemClock().now() - timedelta(minutes=3)
    await live.show(ObservedNode(taken=began, root="/k", resources=(ResourceView(name=GPU),)))
    async with browsed(places, "phone", serving=serving(live, places)) as page:
        hour = page.locator(".hour")
        await hour.get_by_text("an hour ago").wait_for()
        await hour.get_by_text("seen since").wait_for()
        first = await hour.locator("polygon").evaluate("area => area.points[0].x / 300")
        assert 1 - 4 / 60 < first <= 1 - 3 / 60  # of the whole width


async def test_enter_in_the_search_goes_to_the_first_device_and_opens_nothing(places: NodePlaces) -> None:
    async with browsed(places, "desk") as page:
        tile = page.get_by_role("button", name="gpu-10, ")
        await tile.wait_for()
        await page.keyboard.press("/")
        await page.keyboard.type("gpu-10")
        await page.keyboard.press("Enter")
        await playwright.expect(tile).to_be_focused()
        assert not await page.get_by_role("dialog").count()
        await page.keyboard.press("Enter")
        await page.get_by_role("dialog").wait_for()


async def test_panels_are_in_the_order_of_numa_nodes_and_what_lies_at_several_comes_after(places: NodePlaces) -> None:
    nodes = ((10,), (0, 1), (2,), None, (0,), (1,))
    gpus = tuple(DeviceView(id=str(number), numa_nodes=numa) for number, numa in enumerate(nodes))
    live = LiveNode()
    await live.show(ObservedNode(taken=AT, root="/k", resources=(ResourceView(name=GPU, devices=gpus),)))
    async with browsed(places, "desk", serving=serving(live, places)) as page:
        await page.locator("#devices .tile").first.wait_for()
        assert await page.locator("#devices h2").all_text_contents() == [
            *(f"NUMA node {number}" for number in (0, 1, 2, 10)),
            "NUMA nodes 0,1",
            "Without a NUMA node",
        ]


async def test_thousands_of_devices_can_be_reached_and_searched(places: NodePlaces) -> None:
    many = [f"gpu-{number}" for number in range(10_000)]
    write(places, *many, held="gpu-9999")
    async with browsed(places, "desk") as page:
        free = page.get_by_role("listbox", name=f"{GPU}, Without a NUMA node")
        await free.focus()
        option = free.get_by_role("option")
        await playwright.expect(option).to_have_accessible_name(f"gpu-0, {GPU}, Healthy, free")
        await page.keyboard.press("End")
        await playwright.expect(option).to_have_accessible_name(f"gpu-9998, {GPU}, Healthy, free")
        await playwright.expect(option).to_have_attribute("aria-posinset", "9999")
        await playwright.expect(option).to_be_in_viewport()
        assert await free.locator("canvas").evaluate_all("all => all.filter(each => each.width > 0).length") < 10
        await page.keyboard.press("Enter")
        await page.get_by_role("dialog").get_by_role("heading", name="gpu-9998").wait_for()
        await page.keyboard.press("Escape")
        await page.keyboard.press("/")
        await page.keyboard.type("gpu-123")
        await page.get_by_text("11 of 10000 found").wait_for()
        await page.keyboard.press("Enter")
        await playwright.expect(option).to_have_accessible_name(f"gpu-123, {GPU}, Healthy, free")
        await page.evaluate("scrollTo(0, 0)")
        box = await free.bounding_box()
        await page.mouse.click(box["x"] + 30, box["y"] + 10)
        await page.get_by_role("dialog").get_by_role("heading", name="gpu-1", exact=True).wait_for()
        write(places, *many[1:], held="gpu-1")
        await page.get_by_role("dialog").get_by_text("uid-1/main").first.wait_for()


async def test_a_kubelet_that_does_not_answer_is_told_where_the_page_says_that_it_is_live(places: NodePlaces) -> None:
    live = LiveNode()
    silent = (ReadingProblem(Witness.POD_RESOURCES, "the kubelet hangs"),)
    node = ObservedNode(taken=AT, root="/k", resources=(ResourceView(name=GPU, devices=(DeviceView(id="a"),)),))
    async with browsed(places, "phone", serving=serving(live, places)) as page:
        said = page.locator("#live")
        await playwright.expect(said).to_have_text("reading the node")
        await page.get_by_text("The node is being read for the first time.").wait_for()
        await live.show(replace(node, problems=silent))
        await playwright.expect(said).to_have_text("live, incomplete")
        await page.get_by_role("alert").get_by_text("shown as files have them").wait_for()
        await live.show(node)
        await playwright.expect(said).to_have_text("live")
        await playwright.expect(page.get_by_role("alert")).to_have_count(0)
        await live.show(ObservedNode(taken=AT, root="/k", problems=silent))
        await playwright.expect(said).to_contain_text("not live: as of")
        assert len(await labels(page)) == 1
        await page.goto(f"{page.url}table")
        await page.get_by_text("shown as they were when all sources could be read").wait_for()
        await page.get_by_text("the kubelet hangs").wait_for()


async def test_a_page_goes_on_when_its_server_is_back(places: NodePlaces) -> None:
    serving, again = asyncio.Event(), asyncio.Event()
    ports = asyncio.Queue[int]()

    async def serve(port: int, until: asyncio.Event) -> None:
        async with serve_node_page(places, PageSettings(address=TcpAddress("127.0.0.1", port)), SystemClock()) as url:
            ports.put_nowait(int(url.rpartition(":")[2].strip("/")))
            await until.wait()

    @asynccontextmanager
    async def first() -> AsyncIterator[str]:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(serve(0, serving))
            yield f"http://127.0.0.1:{await ports.get()}/"
            again.set()

    async with browsed(places, "desk", serving=first(), complains_of="ERR_") as page:
        await page.get_by_role("button", name="gpu-0, ").wait_for()
        serving.set()
        await page.get_by_text("connection lost, trying again").wait_for()
        write(places, "gpu-1", "gpu-3")
        port = int(page.url.rpartition(":")[2].strip("/"))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(serve(port, again))
            await page.get_by_role("button", name="gpu-3, ").wait_for()
            names = [label.partition(",")[0] for label in await labels(page)]
            assert names == ["gpu-1", "gpu-3"]
            await playwright.expect(page.locator("#live")).to_have_text("live, incomplete")  # there is no kubelet
            again.set()


async def test_without_javascript_there_is_the_table(places: NodePlaces) -> None:
    async with browsed(places, "desk", java_script_enabled=False) as page:
        await page.get_by_role("rowheader", name=GPU).first.wait_for()
        assert page.url.endswith("/table")
        assert await page.title() == "Devices of node-7"
        assert await page.get_by_role("cell", name="gpu-1", exact=True).count() == 1


async def test_the_table_is_legible_on_a_phone(places: NodePlaces) -> None:
    name = "nvidia-training-job-worker-0-7f9c6b5d4-x2x8q"
    holder = DeviceHolder(container="trainer", namespace="kube-system", pod=name, uid="u", since=AT)
    gpu = DeviceView(id="GPU-8b3f7c1e-9d52-4e7a-b1c4-6f0a2d9e5b71", holders=(holder,), host_paths=("/dev/nvidia0",))
    live = LiveNode()
    await live.show(ObservedNode(taken=AT, root="/k", resources=(ResourceView(name=GPU, devices=(gpu,)),)))
    async with browsed(places, "phone", serving=serving(live, places), java_script_enabled=False) as page:
        await page.get_by_role("cell", name=name).wait_for()
        boxes = [await each.bounding_box() for each in await page.locator("td, th").all()]
        assert min(box["width"] for box in boxes) > 50
        assert max(box["height"] for box in boxes) < 120
        main = await page.locator("main").bounding_box()
        assert main["width"] <= 390  # each table scrolls for itself
