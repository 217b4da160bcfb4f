"""Make the pictures of a node's page in ``docs/pictures``, in Chromium: ``make pictures``.

The node is made up, and has the names that nodes have: devices named by UUID, and pods of controllers.

Usage: python -m tools.pictures [--sizes DIR]
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

from plugbay.kubelet.checkpoint import encode
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry
from plugbay.model.edits import ContainerEdits, DeviceNode, Mount
from plugbay.observe.page.live import LiveNode
from plugbay.observe.page.serving import PageSettings, serve_page
from plugbay.observe.places import NodePlaces, places_of
from plugbay.observe.view import (
    DeviceHealth,
    DeviceHolder,
    DeviceView,
    HealthWord,
    ObservedNode,
    PluginMoment,
    PluginView,
    RejectedPod,
    ResourceView,
    SocketView,
    Witness,
)
from plugbay.ops.clock import SystemClock
from plugbay.ops.listening import TcpAddress
from plugbay.wire.convert import edits_to_pb

PICTURES: Final = Path(__file__).parents[1] / "docs/pictures"
SIZES: Final = {"phone": (390, 844), "desk": (1280, 800), "wall": (2560, 1440)}
NOW: Final = datetime.now(UTC)
GPU: Final = "nvidia.com/gpu"
HCA: Final = "rdma/hca_shared_devices"
SERIAL: Final = "example.com/serial"
TRAIN: Final = "nvidia-training-job-worker-{}-7f9c6b5d4-x2x8{}"
HEALTHY: Final = DeviceHealth(word=HealthWord.HEALTHY, witness=Witness.NODE)
BURNT: Final = DeviceHealth(
    word=HealthWord.UNHEALTHY, reason="XidError", message="XID 79: GPU has fallen off the bus", witness=Witness.NODE
)
UUIDS: Final = (
    "8b3f7c1e-9d52-4e7a-b1c4-6f0a2d9e5b71",
    "1f6e0d24-5a83-49c7-8e15-c47b90a3f2d8",
    "c05d9b67-3e18-4f2a-9a76-08d3e1b5f64c",
    "e7a42f90-6c1b-4d85-b239-5f8e7d01a3c6",
    "39c8e5d1-0b74-4a6f-8d52-7e1f4b6a90c3",
    "b6d17f3a-84e2-4c09-a5f8-2c9e60d7b184",
    "5e90a2c7-f163-4b8d-9074-d1a8c35f7e2b",
    "a4c1f86e-2d97-4350-8be6-93f05d7c1a48",
)


def uid(number: int) -> str:
    return f"6f1d2c3b-4a59-4e68-9d70-{number:012}"


def holder(namespace: str, pod: str, number: int, *, since_h: float, by: str = "") -> DeviceHolder:
    since = NOW - timedelta(hours=since_h)
    return DeviceHolder(
        container="trainer" if "job" in pod else "server",
        pod=pod,
        namespace=namespace,
        uid=uid(number),
        since=since,
        requested_by=by,
        witnesses=frozenset({Witness.NODE, Witness.CHECKPOINT, Witness.POD_RESOURCES}),
    )


def holders() -> Iterator[DeviceHolder | None]:
    """The holders of the GPUs, one after another."""
    for number in range(3):
        name = TRAIN.format(number, "qwz"[number])
        yield holder("kube-system", name, number, since_h=30.5, by="Job/nvidia-training-job")
    yield None
    triton = holder("inference", "triton-inference-server-5d7f8c9b6-kq2zv", 3, since_h=7, by="ReplicaSet/triton")
    yield triton
    yield triton
    yield None
    yield None


def node() -> ObservedNode:
    """The node as it is now."""
    held = list(holders())
    gpus = [
        DeviceView(
            id=f"GPU-{each}",
            health=BURNT if number == 5 else HEALTHY,
            numa_nodes=(number // 4,),
            host_paths=(f"/dev/nvidia{number}",),
            holders=(by,) if (by := held[number]) else (),
            is_releasing=number == 6,
        )
        for number, each in enumerate(UUIDS)
    ]
    hcas = [
        DeviceView(id=f"mlx5_{number}", health=HEALTHY, numa_nodes=(number // 2,), holders=(by,) if by else ())
        for number, by in enumerate((held[0], held[2], held[4], None))
    ]
    serials = [
        DeviceView(id=f"usb-FTDI_FT232R_USB_UART_A9{each}0VX{each}-if00-port0", health=DeviceHealth(), numa_nodes=None)
        for each in range(3)
    ]
    started = ((1840, "registered"), (1839.9, "sent its first list"))
    restarted = ((11, "its stream ended"), (10.8, "registered"), (10.7, "sent its first list"))
    life = tuple(
        PluginMoment(NOW - timedelta(minutes=minutes), text, "nvidia-gpu.sock")
        for minutes, text in (*started, *restarted)
    )

    def plugin(name: str, state: str, minutes: float, **more: Any) -> PluginView:
        return PluginView(state=state, socket=f"{name}.sock", since=NOW - timedelta(minutes=minutes), **more)

    def socket(name: str, minutes: float, pid: int | None, command: str = "") -> SocketView:
        return SocketView(name=f"{name}.sock", made=NOW - timedelta(minutes=minutes), pid=pid, command=command)

    gpu_plugin = plugin("nvidia-gpu", "Live", 10.8, registrations=2, open_streams=1, life=life)
    serial_plugin, rdma_plugin = plugin("serial", "Gone", 3), plugin("rdma", "Live", 1830)
    return ObservedNode(
        taken=NOW,
        root="/var/lib/kubelet",
        name="gpu-node-07.lab.example.com",
        resources=(
            ResourceView(name=SERIAL, capacity=3, allocatable=0, devices=tuple(serials), plugin=serial_plugin),
            ResourceView(name=GPU, capacity=8, allocatable=7, devices=tuple(gpus), plugin=gpu_plugin),
            ResourceView(name=HCA, capacity=4, allocatable=4, devices=tuple(hcas), plugin=rdma_plugin),
        ),
        sockets=(
            socket("nvidia-gpu", 10.8, 4711, "nvidia-device-p"),
            socket("rdma", 1830, 4802, "k8s-rdma-shared"),
            socket("serial", 1830, None),
        ),
        rejections={"UnexpectedAdmissionError": 1},
        rejected=(
            RejectedPod(
                namespace="batch",
                pod="embedding-backfill-28391040-tx7nm",
                uid=uid(9),
                reason="UnexpectedAdmissionError",
                message="Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. "
                "Requested: 4, Available: 2, which is unexpected",
                at=NOW - timedelta(minutes=4),
            ),
        ),
    )


def past() -> Iterator[ObservedNode]:
    """The node of the last hour, oldest first; the last one is as it is now."""
    now = node()

    def before(minutes: float, **changed: DeviceView) -> ObservedNode:
        """The node some minutes ago, with other devices by the first letters of their UUIDs."""
        resources = tuple(
            replace(each, devices=tuple(changed.get(device.id[4:6], device) for device in each.devices))
            for each in now.resources
        )
        return replace(now, taken=NOW - timedelta(minutes=minutes), resources=resources, rejected=())

    gpus = {each.id[4:6]: each for each in now.resources[1].devices}
    triton = gpus["39"].holders
    free = {key: replace(device, holders=(), is_releasing=False) for key, device in gpus.items()}
    well = replace(gpus["b6"], health=HEALTHY)
    last = replace(gpus["5e"], holders=triton, is_releasing=False)
    yield before(52, **{"39": free["39"], "b6": replace(well, holders=()), "5e": free["5e"]})
    yield before(37, **{"b6": well, "5e": last})
    yield before(11, **{"5e": last})
    yield before(6)
    yield now


def checkpoint() -> bytes:
    """What the pod with two GPUs was given."""
    edits = ContainerEdits(
        env={"NVIDIA_VISIBLE_DEVICES": ",".join(f"GPU-{UUIDS[each]}" for each in (4, 5))},
        mounts=[Mount("/run/nvidia/mps", container_path="/mps", read_only=True)],
        device_nodes=[DeviceNode(f"/dev/{each}") for each in ("nvidia4", "nvidia5", "nvidiactl", "nvidia-uvm")],
        cdi_devices=[f"{GPU}={each}" for each in (4, 5)],
    )
    ids = [f"GPU-{UUIDS[each]}" for each in (4, 5)]
    given = PodDevicesEntry(uid(3), "server", GPU, {1: ids}, edits_to_pb(edits).SerializeToString())
    return encode(CheckpointData([given], {GPU: ids}))


@asynccontextmanager
async def served(directory: Path) -> AsyncIterator[str]:
    places: NodePlaces = places_of(directory / "var/lib/kubelet", host=directory, is_own=False)
    places.kubelet.device_plugins.mkdir(parents=True)
    places.kubelet.checkpoint.write_bytes(checkpoint())
    live = LiveNode()
    for view in past():
        await live.show(view)
    async with serve_page(live, places, PageSettings(address=TcpAddress("127.0.0.1", 0)), SystemClock()) as url:
        yield url


@asynccontextmanager
async def browsing(url: str) -> AsyncIterator[Any]:
    """A function that opens the page in a window of a size."""
    from playwright.async_api import async_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("pictures: there is no chromium: apt-get install chromium")
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])

        async def opened(size: tuple[int, int], scheme: Literal["light", "dark"]) -> Any:
            width, height = size
            page = await browser.new_page(
                viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
            )
            await page.goto(url)
            await page.locator("#devices .tile").first.wait_for()
            return page

        yield opened
        await browser.close()


async def make_pictures(opened: Any) -> None:
    """The pictures of README and docs."""
    page = await opened((1440, 900), "light")
    await page.screenshot(path=PICTURES / "page.png")
    await show_pod(page)
    await page.screenshot(path=PICTURES / "pod.png")
    await page.keyboard.press("Escape")
    await page.locator(f'[data-plugin="{GPU}"]').first.click()
    await page.locator("#life").wait_for()
    await page.screenshot(path=PICTURES / "plugin.png")
    page = await opened((390, 844), "dark")
    await page.screenshot(path=PICTURES / "phone.png")


async def show_pod(page: Any) -> None:
    await page.locator(f'#devices .tile[data-device$="{UUIDS[4]}"]').click()
    await page.locator("dialog [data-pod]").first.click()
    await page.get_by_text("NVIDIA_VISIBLE_DEVICES").wait_for()


async def make_sizes(opened: Any, directory: Path) -> None:
    """The page at every size, light and dark, to look at: as it opens, whole, and with a pod."""
    for name, size in SIZES.items():
        for scheme in ("light", "dark"):
            page = await opened(size, scheme)
            await page.screenshot(path=directory / f"{name}-{scheme}.png")
            await page.screenshot(path=directory / f"{name}-{scheme}-whole.png", full_page=True)
            await show_pod(page)
            await page.screenshot(path=directory / f"{name}-{scheme}-pod.png")
            await page.close()


async def main(sizes: Path | None) -> None:
    with tempfile.TemporaryDirectory(prefix="pb") as directory:
        async with served(Path(directory)) as url, browsing(url) as opened:
            if sizes is None:
                await make_pictures(opened)
            else:
                await make_sizes(opened, sizes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make the pictures of a node's page in docs/pictures.")
    parser.add_argument("--sizes", type=Path, metavar="DIR", help="the page at every size in DIR instead, to look at")
    chosen: Path | None = parser.parse_args().sizes
    if chosen is not None:
        chosen.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(chosen))
