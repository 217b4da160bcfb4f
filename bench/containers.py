"""What real containers cost: a node with the oci runtime, a device node for each pod, and a bare engine beside it.

The own share is what a pod takes from its request to the first line of its log, less what the engine takes to run the
same bundle by itself. Without root, or an engine that works, there is nothing to measure.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.figures import Figure, Pace
from plugbay.cli.client import NodeClient, WatchEvent
from plugbay.errors import EngineUnusable
from plugbay.node.runtimes.oci.engines import Engine, choose_engine

_PODS: Final = "/api/v1/namespaces/default/pods"
_EXAMPLE: Final = Path(__file__).parents[1] / "examples" / "oci" / "nodes.py"
_MANY: Final = 30
_DEADLINE_S: Final = 120.0
_RUN_TARGET_MS: Final = 350
_OWN_TARGET_MS: Final = 60


async def measure(pace: Pace) -> AsyncIterator[Figure]:
    for figure in _figures(pace):
        yield figure


def _figures(pace: Pace) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="pb", dir="/tmp") as directory:
        try:
            engine = choose_engine(None, search_path=os.environ["PATH"], state_dir=Path(directory) / "bare")
        except EngineUnusable as error:
            print(f"containers: nothing to measure: {error}", file=sys.stderr)
            return
        root = Path(directory) / "root"
        with _node(root), _plugin(root):
            client = NodeClient(root)
            _await_device(client)
            runs = 15 if pace is Pace.FULL else 3
            total_ms = []
            for number in range(runs + 1):
                with _pod_running(client, f"one-{number}") as took_ms:
                    total_ms.append(took_ms)
            with _pod_running(client, "kept"):  # what its bundle refers to lasts as long as the pod
                bundle = _copy_bundle(root, Path(directory) / "bundle")
                bare_ms = [_run_bare(engine, bundle, f"plugbay-bench-{number}") for number in range(runs + 1)]
            total, bare = statistics.median(total_ms[1:]), statistics.median(bare_ms[1:])
            yield Figure("oci_pod_first_line_ms", total, "ms", _RUN_TARGET_MS)
            yield Figure("oci_engine_alone_ms", bare, "ms", None)
            yield Figure("oci_own_share_ms", total - bare, "ms", _OWN_TARGET_MS)
            yield Figure(f"oci_pods_{_MANY}_started_and_removed_s", _many(client), "s", None)


@contextmanager
def _pod_running(client: NodeClient, name: str) -> Iterator[float]:
    """Milliseconds from the request to the first line of the log; the pod is gone after the block."""
    with client.watch(_PODS, for_s=_DEADLINE_S) as events:
        start = time.perf_counter()
        client.create(_PODS, _pod(name, device=1))
        _wait(events, {name}, lambda event: _phase(event) == "Running")
        with client.read(f"{_PODS}/{name}/log", {"follow": "true"}) as chunks:
            next(iter(chunks))
        yield (time.perf_counter() - start) * 1000
        client.delete(f"{_PODS}/{name}", {"gracePeriodSeconds": "0"})
        _wait(events, {name}, lambda event: event.type == "DELETED")


def _copy_bundle(root: Path, target: Path) -> Path:
    (instance,) = (root / "oci" / "containers").iterdir()
    target.mkdir()
    shutil.copy(instance / "config.json", target)
    shutil.copytree(instance / "rootfs", target / "rootfs", symlinks=True)
    return target


def _run_bare(engine: Engine, bundle: Path, name: str) -> float:
    config: Any = json.loads((bundle / "config.json").read_bytes())
    config["linux"]["cgroupsPath"] = f"/{name}"
    (bundle / "config.json").write_text(json.dumps(config))
    start = time.perf_counter()
    argv = engine.argv("run", "--bundle", str(bundle), name)
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        took_ms = (time.perf_counter() - start) * 1000
        subprocess.run(engine.argv("kill", name, "KILL"), check=True)
    return took_ms


def _many(client: NodeClient) -> float:
    names = {f"many-{number}" for number in range(_MANY)}
    with client.watch(_PODS, for_s=_DEADLINE_S) as events:
        start = time.perf_counter()
        for name in sorted(names):
            client.create(_PODS, _pod(name, device=0))
        _wait(events, set(names), lambda event: _phase(event) == "Running")
        for name in sorted(names):
            client.delete(f"{_PODS}/{name}", {"gracePeriodSeconds": "0"})
        _wait(events, set(names), lambda event: event.type == "DELETED")
        return time.perf_counter() - start


def _await_device(client: NodeClient) -> None:
    for _ in itertools.count():
        nodes: Any = client.get("/api/v1/nodes")["items"]
        if nodes[0]["status"]["allocatable"].get("example.com/node") == "1":
            return
        time.sleep(0.05)


def _wait(events: Iterator[WatchEvent], names: set[str], wanted: Any) -> None:
    while names:
        event = next(events)
        metadata: Any = event.object["metadata"]
        if wanted(event):
            names.discard(metadata["name"])


def _phase(event: WatchEvent) -> str:
    status: Any = event.object["status"]
    return str(status["phase"])


def _pod(name: str, *, device: int) -> dict[str, object]:
    container = {
        "name": "c",
        "command": ["sh", "-c", "echo runs; exec sleep 100000"],
        "resources": {"limits": {"example.com/node": device}} if device else {},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


@contextmanager
def _node(root: Path) -> Iterator[None]:
    with _plugbay(root, "node", "up", "--name", "bench", "--runtime", "oci", "--log-level", "warning") as process:
        assert process.stdout is not None
        while "SIGTERM" not in process.stdout.readline():
            if process.poll() is not None:
                raise RuntimeError("the node did not start")
        yield


@contextmanager
def _plugin(root: Path) -> Iterator[None]:
    with _plugbay(root, "serve", str(_EXAMPLE), "--log-level", "error"):
        yield


@contextmanager
def _plugbay(root: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-m", "plugbay", "--root", str(root), *arguments]
    environ = {**os.environ, "NODE": "/dev/fuse"}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environ) as process:
        try:
            yield process
        finally:
            process.terminate()
