"""What running pods costs: a node and a plugin, each a process of its own, the process runtime, the durable stores.

``pod run`` is a create request and a watch until the pod runs, with one device, as the command sends them; the start of
the command itself is not in it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from bench.figures import Figure, Pace
from plugbay.cli.kubectl.client import NodeClient, WatchEvent
from plugbay.node.config import NodeConfig

_RESOURCE: Final = "example.com/gopher"
_PODS: Final = "/api/v1/namespaces/default/pods"
_MANY: Final = 200
_DEADLINE_S: Final = 60.0
_SETTLE_S: Final = 3.0
_CREATORS: Final = 4

_RUN_TARGET_MS: Final = 80
_UP_TARGET_S: Final = 8
_GONE_TARGET_S: Final = 5
_IDLE_TARGET_MS: Final = 100
_RSS_TARGET_MB: Final = 90


async def measure(pace: Pace) -> AsyncIterator[Figure]:
    for figure in _figures(pace):
        yield figure


def _figures(pace: Pace) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="pb", dir="/tmp") as directory, ExitStack() as stack:
        root = Path(directory)
        node = stack.enter_context(_node(root))
        stack.enter_context(_plugin(root))
        client = NodeClient(root)
        yield from _single(client, 30 if pace is Pace.FULL else 5)
        many = _MANY if pace is Pace.FULL else 20
        with client.watch(_PODS, for_s=_DEADLINE_S) as events:
            took_s = _timed(lambda: _create(client, many), lambda: _wait(events, many, _is_running))
        yield Figure(f"pods_{many}_running_s", took_s, "s", _UP_TARGET_S)
        window_s = 60.0 if pace is Pace.FULL else 5.0
        time.sleep(_SETTLE_S)
        before = _cpu_ms(node.pid)
        time.sleep(window_s)
        yield Figure("node_idle_cpu_ms_per_min", (_cpu_ms(node.pid) - before) * 60 / window_s, "ms", _IDLE_TARGET_MS)
        yield Figure(f"node_rss_mb_{many}_pods", _rss_mb(node.pid), "MB", _RSS_TARGET_MB)
        with client.watch(_PODS, for_s=_DEADLINE_S) as events:
            took_s = _timed(lambda: _delete(client, many), lambda: _wait(events, many, _is_gone))
        yield Figure(f"pods_{many}_gone_s", took_s, "s", _GONE_TARGET_S)


def _single(client: NodeClient, runs: int) -> Iterator[Figure]:
    took_ms = []
    for number in range(runs + 1):
        with client.watch(_PODS, for_s=_DEADLINE_S) as events:
            start = time.perf_counter()
            client.create(_PODS, _pod(f"one-{number}"))
            _wait(events, 1, _is_running)
            took_ms.append((time.perf_counter() - start) * 1000)
            client.delete(f"{_PODS}/one-{number}", {"gracePeriodSeconds": "0"})
            _wait(events, 1, _is_gone)
    yield Figure("pod_run_ms", statistics.median(took_ms[1:]), "ms", _RUN_TARGET_MS)


def _timed(*steps: Callable[[], object]) -> float:
    start = time.perf_counter()
    for step in steps:
        step()
    return time.perf_counter() - start


def _create(client: NodeClient, count: int) -> None:
    _in_parallel(lambda number: client.create(_PODS, _pod(f"p{number}")), count)


def _delete(client: NodeClient, count: int) -> None:
    _in_parallel(lambda number: client.delete(f"{_PODS}/p{number}"), count)


def _in_parallel(work: Callable[[int], object], count: int) -> None:
    """A few at a time, like a client that has all of them at hand."""
    numbers = iter(range(count))
    lock = threading.Lock()

    def take() -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            work(number)

    threads = [threading.Thread(target=take) for _ in range(_CREATORS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _wait(events: Iterator[WatchEvent], count: int, wanted: Callable[[WatchEvent], bool]) -> None:
    names: set[str] = set()
    while len(names) < count:
        event = next(events)
        if wanted(event):
            metadata: Any = event.object["metadata"]
            names.add(metadata["name"])


def _is_running(event: WatchEvent) -> bool:
    status: Any = event.object["status"]
    return bool(status["phase"] == "Running")


def _is_gone(event: WatchEvent) -> bool:
    return event.type == "DELETED"


def _pod(name: str) -> dict[str, object]:
    container = {
        "name": "c",
        "image": "busybox",
        "command": ["sleep", "100000"],
        "resources": {"limits": {_RESOURCE: 1}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"nodeName": "bench", "terminationGracePeriodSeconds": 5, "containers": [container]},
    }


_NODE: Final = """
import asyncio, os, signal, sys
from pathlib import Path
from plugbay.node.config import NodeConfig
from plugbay.node.run import run_node
from plugbay.ops.clock import SystemClock

async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    ready = lambda: print("ready", flush=True)
    config = NodeConfig(Path(sys.argv[1]), name="bench", max_pods=1000)
    await run_node(config, environ=os.environ, clock=SystemClock(), stop=stop, ready=ready)

asyncio.run(main())
"""

_PLUGIN: Final = """
import asyncio, sys
from pathlib import Path
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.devices import Device
from plugbay.model.ids import DeviceId
from plugbay.testing.fakes.plugin import fake_plugin

async def main():
    paths = KubeletPaths(Path(sys.argv[1]))
    devices = [Device(DeviceId(f"g{number}")) for number in range(300)]
    async with fake_plugin("example.com/gopher", paths.device_plugins / "g.sock", devices) as plugin:
        await plugin.register(paths.registration_socket)
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@contextmanager
def _node(root: Path) -> Iterator[subprocess.Popen[str]]:
    with _process(_NODE, root) as process:
        try:
            yield process
        finally:
            client = NodeClient(NodeConfig(root).root)
            with client.watch(_PODS, for_s=_DEADLINE_S) as events:
                left: Any = client.get(_PODS)["items"]
                for pod in left:
                    client.delete(f"{_PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": "0"})
                _wait(events, len(left), _is_gone)


@contextmanager
def _plugin(root: Path) -> Iterator[None]:
    with _process(_PLUGIN, root):
        yield


@contextmanager
def _process(program: str, root: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", program, str(root)], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("a process of the bench did not start")
        try:
            yield process
        finally:
            process.terminate()


def _cpu_ms(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def _rss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024
