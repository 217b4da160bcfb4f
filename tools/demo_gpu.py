"""Eight fake A100s on one machine, without a GPU and without a cluster: `make demo-gpu`.

Compiles the fake NVIDIA driver, starts a node on a private root and `plugbay serve nvidia`, and plays a day of a GPU
node: pods of 4, 2 and 1 GPUs land on GPUs that are linked, an XID fails one of them, the pod's status shows it, and the
GPU comes back. Every step says what was observed; the first one that does not hold ends the demo with exit code 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

from tools.demo import Demo, DemoFailed, demo

GPU = "nvidia.com/gpu"
PATIENCE_S = 30.0


class FakeGpus:
    """The fake driver, which lives in an event loop of its own thread.

    Args:
        directory: where the files of the machine go.
    """

    def __init__(self, directory: Path) -> None:
        from plugbay.testing.fakenvml import a100_nvswitch, lay_out_machine

        self.machine = a100_nvswitch()
        self.root = directory / "machine"
        lay_out_machine(self.root, self.machine)
        self.driver: Any = None
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._problem: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="fake driver")

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()
        if self._problem is not None:
            raise DemoFailed(str(self._problem))

    def stop(self) -> None:
        if self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def do(self, change: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(change, self._loop).result(PATIENCE_S)

    def index(self, uuid: str) -> int:
        return self.machine.place(uuid)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except Exception as error:  # told by the main thread
            self._problem = error
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        from plugbay.testing.fakenvml import fake_driver

        self._stop = asyncio.Event()
        async with fake_driver(self.machine) as self.driver:
            self._ready.set()
            await self._stop.wait()


class GpuDemo:
    """One run, with the steps and processes of the gopher demo."""

    def __init__(self, base: Demo, gpus: FakeGpus) -> None:
        self.base = base
        self.gpus = gpus

    def play(self) -> None:
        base, driver = self.base, self.gpus.driver
        base.node_options = ("--runtime", "process")
        base.start_node()
        flags = ["--driver-root-ctr-path=/", f"--machine-root={self.gpus.root}", "--health-clean-time=2s"]
        base.say("$ plugbay serve nvidia --health-clean-time=2s &   # with the fake driver")
        base.plugin = base.spawn("serve", "nvidia", *flags, "--rescan-interval=500ms", environ=driver.environ)
        base.step("eight A100s are on offer", self.counts, "capacity 8, allocatable 8")

        self.run_pod("four", 4)
        self.run_pod("two", 2)
        self.run_pod("one", 1)
        base.step("the two GPUs of pod two share a PCIe switch", lambda: self.lowest("two", 2), True)
        base.step("the four GPUs of pod four share a socket", lambda: self.lowest("four", 4), True)
        base.step("no GPU is in two pods", lambda: len({*self.held("one"), *self.held("two"), *self.held("four")}), 7)

        first, second = self.held("two")
        base.say(f"# GPU {first} of pod two reports XID 79: it has fallen off the bus")
        self.gpus.do(driver.xid(first, 79))
        base.step("the pod's status shows it", lambda: self.health("two"), {first: "Unhealthy", second: "Healthy"})
        base.step("the node offers one GPU less", self.counts, "capacity 8, allocatable 7")
        base.say("# the driver is loaded anew, which resets the GPU")
        self.gpus.do(driver.reload())
        base.step(
            "a probe passed: it is healthy again", lambda: self.health("two"), dict.fromkeys((first, second), "Healthy")
        )
        base.step("and on offer", self.counts, "capacity 8, allocatable 8")

        base.say(f"# GPU {second} reports XID 94: an ECC error that the GPU contained")
        self.gpus.do(driver.xid(second, 94))
        base.step("the node offers one GPU less", self.counts, "capacity 8, allocatable 7")
        base.step("after 2 s without another XID it is back", self.counts, "capacity 8, allocatable 8")

        base.plugbay("pod", "delete", "--all", "--now")
        base.step("every GPU is free", lambda: len(base.items("pod")), 0)

    def run_pod(self, name: str, count: int) -> None:
        container = {
            "name": "c",
            "image": "none",
            "command": ["sleep", "1000"],
            "resources": {"limits": {GPU: str(count)}},
        }
        manifest = self.base.directory / f"{name}.json"
        manifest.write_text(
            json.dumps(
                {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}
            )
        )
        self.base.plugbay("pod", "run", "-f", str(manifest))
        self.base.step(f"pod {name} runs", lambda: self.base.phase(name), "Running")
        self.base.step(f"it holds {count} of the GPUs", lambda: len(self.held(name)), count)
        self.base.say(f"       they are {', '.join(f'GPU {each}' for each in self.held(name))}")

    def held(self, name: str) -> list[int]:
        """The indices of the GPUs that a pod's container sees."""
        lines = self.base.run("pod", "exec", name, "--", "env").stdout.splitlines()
        value = next(line for line in lines if line.startswith("NVIDIA_VISIBLE_DEVICES=")).partition("=")[2]
        return sorted(map(self.gpus.index, value.split(",")))

    def lowest(self, name: str, size: int) -> bool:
        """Whether a pod's GPUs are all of one group of ``size`` neighbours."""
        return len({index // size for index in self.held(name)}) == 1

    def health(self, name: str) -> dict[int, str]:
        status = self.base.pod(name)["status"]["containerStatuses"][0]["allocatedResourcesStatus"]
        found = {self.gpus.index(each["resourceID"]): each["health"] for of in status for each in of["resources"]}
        return dict(sorted(found.items()))

    def counts(self) -> str:
        return self.base.counts(GPU)


@contextlib.contextmanager
def gpu_demo() -> Iterator[GpuDemo]:
    with demo() as base:
        gpus = FakeGpus(base.directory)
        gpus.start()
        try:
            yield GpuDemo(base, gpus)
        finally:
            base.stop()
            gpus.stop()


def main() -> int:
    os.environ.setdefault("PYTHONWARNINGS", "default")
    started = time.monotonic()
    try:
        with gpu_demo() as running:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, running.base.interrupt)
            running.play()
    except DemoFailed as error:
        print(f"FAILED: {error}", flush=True)
        return 1
    print(f"All of it held, in {time.monotonic() - started:.0f} s, without a GPU.", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
