"""A node with one device node to give, and pods on it that are timed: what the benches of all runtimes share."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from plugbay.cli.kubectl.client import NodeClient, WatchEvent

MANY: Final = 30

_PODS: Final = "/api/v1/namespaces/default/pods"
_EVENTS: Final = "/api/v1/namespaces/default/events"
_EXAMPLE: Final = Path(__file__).parents[1] / "examples" / "oci" / "nodes.py"
_DEADLINE_S: Final = 120.0


class ContainerNode:
    """A node that runs, and what its pods are made of; see `container_node`."""

    def __init__(self, root: Path, image: str) -> None:
        self._client = NodeClient(root)
        self._image = image

    def await_device(self) -> None:
        while True:
            nodes: Any = self._client.get("/api/v1/nodes")["items"]
            if nodes[0]["status"]["allocatable"].get("example.com/node") == "1":
                return
            time.sleep(0.05)

    @contextmanager
    def pod_running(self, name: str) -> Iterator[float]:
        """Milliseconds from the request to the first line of the log; the pod is gone after the block."""
        with self._client.watch(_PODS, for_s=_DEADLINE_S) as events:
            start = time.perf_counter()
            self._client.create(_PODS, self._pod(name, device=1))
            _wait(events, {name}, lambda event: _phase(event) == "Running")
            with self._client.read(f"{_PODS}/{name}/log", {"follow": "true"}) as chunks:
                next(iter(chunks))
            yield (time.perf_counter() - start) * 1000
            self._client.delete(f"{_PODS}/{name}", {"gracePeriodSeconds": "0"})
            _wait(events, {name}, lambda event: event.type == "DELETED")

    def many(self) -> float:
        """Seconds for `MANY` pods at once, started and removed."""
        names = {f"many-{number}" for number in range(MANY)}
        with self._client.watch(_PODS, for_s=_DEADLINE_S) as events:
            start = time.perf_counter()
            for name in sorted(names):
                self._client.create(_PODS, self._pod(name, device=0))
            _wait(events, set(names), lambda event: _phase(event) == "Running")
            for name in sorted(names):
                self._client.delete(f"{_PODS}/{name}", {"gracePeriodSeconds": "0"})
            _wait(events, set(names), lambda event: event.type == "DELETED")
            return time.perf_counter() - start

    def warnings(self) -> list[str]:
        """What went wrong since the node was started."""
        events: Any = self._client.get(_EVENTS)["items"]
        return [event["message"] for event in events if event["type"] == "Warning"]

    def _pod(self, name: str, *, device: int) -> dict[str, object]:
        container = {
            "name": "c",
            "image": self._image,
            "command": ["sh", "-c", "echo runs; exec sleep 100000"],
            "resources": {"limits": {"example.com/node": device}} if device else {},
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


@contextmanager
def container_node(root: Path, *options: str, image: str = "") -> Iterator[ContainerNode]:
    """A node whose runtime ``options`` choose, with a plugin that offers ``/dev/fuse``; its pods run ``image``."""
    with _plugbay(root, "node", "up", "--name", "bench", "--log-level", "warning", *options) as process:
        assert process.stdout is not None
        while "SIGTERM" not in process.stdout.readline():
            if process.poll() is not None:
                raise RuntimeError("the node did not start")
        with _plugbay(root, "serve", str(_EXAMPLE), "--log-level", "error"):
            node = ContainerNode(root, image)
            node.await_device()
            yield node


@contextmanager
def _plugbay(root: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-m", "plugbay", "--root", str(root), *arguments]
    environ = {**os.environ, "NODE": "/dev/fuse"}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environ) as process:
        try:
            yield process
        finally:
            process.terminate()


def _wait(events: Iterator[WatchEvent], names: set[str], wanted: Callable[[WatchEvent], bool]) -> None:
    while names:
        event = next(events)
        metadata: Any = event.object["metadata"]
        if wanted(event):
            names.discard(metadata["name"])


def _phase(event: WatchEvent) -> str:
    status: Any = event.object["status"]
    return str(status["phase"])
