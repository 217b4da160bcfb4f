"""The page in a real browser, at three sizes: live, without errors, for keyboards and screen readers, harmless."""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from plugbay.kubelet.checkpoint import encode
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry
from plugbay.model.edits import ContainerEdits
from plugbay.observe.page.live import LiveNode
from plugbay.observe.page.serving import PageSettings, serve_node_page, serve_page
from plugbay.observe.places import NodePlaces, places_of
from plugbay.observe.view import (
    DeviceHealth,
    DeviceHolder,
    DeviceView,
    HealthWord,
    ObservedNode,
    PluginMoment,
    PluginView,
    ReadingProblem,
    RejectedPod,
    ResourceView,
    SocketView,
    Witness,
)
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


_SEEN = """
tiles => tiles.map(tile => [...tile.children].map(line => {
  const [start, end] = [...line.children].map(each => each.getBoundingClientRect());
  const box = tile.getBoundingClientRect();
  const isWhole = line.firstChild.scrollWidth <= line.firstChild.clientWidth;
  return {
    end: isWhole ? line.textContent : line.lastChild.textContent,
    isInside: start.left >= box.left && start.width > 8 && end.right <= box.right && (isWhole || end.width > 0),
  };
}))
"""


def serving(live: LiveNode, places: NodePlaces) -> AbstractAsyncContextManager[str]:
    """The page of what is shown by hand."""
    return serve_page(live, places, PageSettings(address=TcpAddress("127.0.0.1", 0)), SystemClock())


def labels(page: Any) -> Any:
    return page.locator("#devices .tile").evaluate_all("all => all.map(each => each.getAttribute('aria-label'))")


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


async def test_a_pod_shows_what_its_containers_were_given(places: NodePlaces) -> None:
    async with browsed(places, "phone") as page:
        await page.get_by_role("button", name="gpu-1, ").click()
        await page.get_by_role("dialog").get_by_role("button", name="uid-1/main").click()
        await page.get_by_text("VISIBLE=<script>alert(2)</script>").wait_for()


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


async def test_pods_without_uid_are_told_apart_by_name(places: NodePlaces) -> None:
    live = LiveNode()
    held = [
        DeviceView(id=each, holders=(DeviceHolder(container="main", namespace="x", pod=f"nouid-{each}"),))
        for each in ("a", "b")
    ]
    await live.show(ObservedNode(taken=AT, root="/k", resources=(ResourceView(name=GPU, devices=tuple(held)),)))
    async with browsed(places, "desk", serving=serving(live, places)) as page:
        await page.locator(".figure", has_text="pods with devices").get_by_text("2", exact=True).wait_for()
        await page.get_by_role("button", name="a, ").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_role("button", name="x/nouid-a/main").click()
        await dialog.get_by_role("heading", name="Pod x/nouid-a").wait_for()
        await dialog.get_by_text("found by its UID, which no source tells").wait_for()
        assert await dialog.locator("[data-device]").all_text_contents() == ["a (Unknown)"]


async def test_what_is_open_can_be_left_backwards_and_shared(places: NodePlaces) -> None:
    async with browsed(places, "desk") as page:
        await page.get_by_role("button", name="gpu-1, ").click()
        dialog = page.get_by_role("dialog")
        assert page.url.endswith(f"/#device=gpu-1&of={GPU}")
        back = dialog.get_by_role("button", name="Back")
        assert not await back.count()
        await dialog.get_by_role("button", name="uid-1/main").click()
        await dialog.get_by_role("heading", name="Pod uid-1").wait_for()
        assert page.url.endswith("/#pod=uid-1")
        await playwright.expect(dialog.get_by_role("heading", name="Pod uid-1")).to_be_focused()
        await back.click()
        await dialog.get_by_role("heading", name="gpu-1").wait_for()
        await page.go_forward()
        await dialog.get_by_role("heading", name="Pod uid-1").wait_for()
        shared = page.url
        await page.keyboard.press("Escape")
        await playwright.expect(dialog).to_have_count(0)
        assert page.url == shared.partition("#")[0]
        await page.goto("about:blank")
        await page.goto(shared)
        await dialog.get_by_text("VISIBLE=").wait_for()
        await page.goto(f"{page.url.partition('#')[0]}#pod=default/gone")
        await dialog.get_by_text("This pod is not there any more.").wait_for()
        await page.goto(f"{page.url.partition('#')[0]}#device={HOSTILE}&of={GPU}")
        await dialog.get_by_role("heading", name="<img src=x").wait_for()


async def test_an_open_dialog_follows_changes_and_keeps_the_focus(places: NodePlaces) -> None:
    async with browsed(places, "desk") as page:
        await page.get_by_role("button", name="gpu-1, ").click()
        link = page.get_by_role("dialog").get_by_role("button", name="uid-1/main")
        await link.focus()
        await link.evaluate("link => { link.marked = true; }")
        write(places, "gpu-0", "gpu-2")  # gpu-1 fails, and its pod keeps it
        await page.get_by_role("dialog").get_by_text("Unhealthy").first.wait_for()
        assert await link.evaluate("link => link.marked === true && document.activeElement === link")
        write(places, "gpu-0", "gpu-2", held="gpu-2")
        await page.get_by_role("dialog").get_by_text("This device is not there any more.").wait_for()
        await page.get_by_role("dialog").get_by_text("gpu-1 vanished").wait_for()


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


async def test_a_plugin_shows_its_life_and_a_socket_what_is_seen_of_it(places: NodePlaces) -> None:
    steps = ("registered", "sent its first list", HOSTILE)
    life = tuple(PluginMoment(AT + timedelta(seconds=step), text, "gpu.sock") for step, text in enumerate(steps))
    plugin = PluginView(state="Live", socket="gpu.sock", registrations=3, open_streams=1, life=life)
    node = ObservedNode(
        taken=AT,
        root="/k",
        resources=(ResourceView(name=GPU, plugin=plugin, devices=(DeviceView(id="a", is_releasing=True),)),),
        sockets=(SocketView(name="gpu.sock", made=AT), SocketView(name="other.sock", made=AT, pid=7, command="other")),
    )
    live = LiveNode()
    await live.show(node)
    async with browsed(places, "phone", serving=serving(live, places)) as page:
        assert await labels(page) == [f"a, {GPU}, Unknown, being released"]
        await page.get_by_role("button", name=GPU, exact=True).click()
        dialog = page.get_by_role("dialog")
        told = await dialog.locator("#life li").all_inner_texts()
        assert [each.splitlines()[0] for each in told] == [
            "<img src=x onerror=alert(1)>\\u202e",
            "sent its first list",
            "registered",
        ]
        assert all("gpu.sock" in each for each in told)
        await dialog.get_by_text("nothing listens").wait_for()
        ended = replace(plugin, state="Stopped", open_streams=0)
        await live.show(replace(node, resources=(ResourceView(name=GPU, plugin=ended),)))
        await dialog.get_by_text("Stopped").wait_for()
        await page.keyboard.press("Escape")
        await page.get_by_role("button", name="other.sock").click()
        await dialog.get_by_text("process 7 other listens").wait_for()
        await live.show(replace(node, sockets=()))
        await dialog.get_by_text("other.sock was removed").wait_for()


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


async def test_pods_that_are_refused_are_seen(places: NodePlaces) -> None:
    live = LiveNode()
    node = ObservedNode(taken=AT, root="/k")
    await live.show(node)
    async with browsed(places, "desk", serving=serving(live, places)) as page:
        card = page.get_by_role("region", name="Refused pods")
        await page.locator(".figure").get_by_text("unhealthy").wait_for()
        assert not await card.count()
        refused = RejectedPod(namespace="lab", pod="train", uid="u", reason="UnexpectedAdmissionError", message=HOSTILE)
        await live.show(replace(node, rejected=(refused,)))
        await card.get_by_text("<img src=x onerror=alert(1)>\\u202e").wait_for()
        await page.locator("#events").get_by_text("lab/train was refused, UnexpectedAdmissionError").wait_for()
        await page.locator(".figure.bad").get_by_text("pod refused").wait_for()
        await card.get_by_role("button", name="lab/train").click()
        await page.get_by_role("dialog").get_by_text("UnexpectedAdmissionError").first.wait_for()
        assert page.url.endswith("/#pod=lab/train")
        await page.keyboard.press("Escape")
        await live.show(node)
        await playwright.expect(card).to_have_count(0)


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


async def test_the_doctor_examines_the_node_and_tells_alike_findings_together(places: NodePlaces) -> None:
    for number in range(5):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
            dead.bind(str(places.kubelet.device_plugins / f"dead-{number}.sock"))
    async with browsed(places, "phone") as page:
        await page.get_by_role("button", name="Examine the node").click()
        alike = page.locator(".finding", has_text="dead-0.sock")
        await alike.get_by_text("\N{MULTIPLICATION SIGN} 5").wait_for()
        assert (await alike.inner_text()).count("To do:") == 1
        assert (await alike.inner_text()).count("dead-") < 5
        await alike.get_by_text("2 more").click()
        await alike.get_by_text("dead-4.sock").first.wait_for()
        unseen = page.locator("#findings > details")
        await unseen.get_by_text("could not see everything").click()
        assert re.search(r"would not have found everything: PBD\d{3}", await unseen.inner_text())
        assert len((await unseen.inner_text()).splitlines()) > 2  # and why


async def test_what_happened_stands_before_the_findings(places: NodePlaces) -> None:
    async with browsed(places, "phone") as page:
        await page.locator("#examine").wait_for()
        tops = "['events', 'examine'].map(each => document.getElementById(each).getBoundingClientRect().top)"
        events, doctor = await page.evaluate(tops)
        assert events < doctor


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
