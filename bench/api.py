"""What the API costs over TLS: a node on the process runtime, and clients in the bench's own process.

A request's time is from the first byte that the client sends to the last one of the answer, so the kernel's and the
client's TLS are in it. A fresh connection has the handshakes of TCP and TLS in its time as well.

Starts with and without the API are measured in turn, each pair of them under the same load of the machine; what is
compared is the medians.
"""

from __future__ import annotations

import gzip
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from bench.api_client import TABLE, ApiClient, Connection, Watchers
from bench.figures import Figure, Pace
from bench.processes import cpu_seconds, rss_mb
from plugbay.cli.kubectl.client import NodeClient

_PODS: Final = "/api/v1/namespaces/default/pods"
_LIST: Final = f"{_PODS}?limit=500"
_MERGE_PATCH: Final = "application/merge-patch+json"
_GZIP: Final = b"\x1f\x8b"
_SETTLE_S: Final = 2.0

_RUNS: Final = {Pace.FULL: 50, Pace.QUICK: 5}
_STARTS: Final = {Pace.FULL: 11, Pace.QUICK: 2}
_LISTED: Final = {Pace.FULL: 200, Pace.QUICK: 20}
_WATCHERS: Final = {Pace.FULL: 1000, Pace.QUICK: 50}
_CHANGES: Final = {Pace.FULL: 20, Pace.QUICK: 3}
_IDLE: Final = {Pace.FULL: 5000, Pace.QUICK: 100}
_IDLE_WINDOW_S: Final = {Pace.FULL: 60.0, Pace.QUICK: 3.0}

_LIST_TARGET_MS: Final = 15
_DELIVERY_TARGET_MS: Final = 150
_WATCHED_RSS_TARGET_MB: Final = 120
_RUN_TARGET_MS: Final = 60
_START_TARGET_MS: Final = 40
_RSS_TARGET_MB: Final = 8


async def measure(pace: Pace) -> AsyncIterator[Figure]:
    for figure in _starts(_STARTS[pace]):
        yield figure
    for figure in _one_node(pace):
        yield figure


def _one_node(pace: Pace) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="pb", dir="/tmp") as directory:
        root = Path(directory)
        with _node(root, "--api") as node:
            client = ApiClient(root)
            with client.connect() as connection:
                yield from _runs(client, connection, _RUNS[pace])
                with _pods(client, connection, _LISTED[pace]):
                    yield from _lists(node, client, connection, _LISTED[pace], _RUNS[pace])
                    yield from _watched(node, client, connection, pace)
                    yield from _changed(connection, _LISTED[pace])
                    yield from _idle(node, client, pace)


# --- starts ---


def _starts(pairs: int) -> Iterator[Figure]:
    """Starts on one root each, the first of which makes the certificate."""
    with tempfile.TemporaryDirectory(prefix="pb", dir="/tmp") as directory:
        plain, served = Path(directory) / "plain", Path(directory) / "served"
        without, using = [], []
        for _ in range(pairs + 1):
            without.append(_start(plain))
            using.append(_start(served, "--api"))
    yield Figure("node_start_ms", _median(without[1:], 0), "ms", None)
    yield Figure("api_start_more_ms", _median(using[1:], 0) - _median(without[1:], 0), "ms", _START_TARGET_MS)
    yield Figure("api_first_start_more_ms", using[0][0] - _median(without[1:], 0), "ms", None)
    yield Figure("api_start_more_cpu_ms", _median(using[1:], 1) - _median(without[1:], 1), "ms", None)
    yield Figure("node_rss_mb", _median(without[1:], 2), "MB", None)
    yield Figure("api_rss_more_mb", _median(using[1:], 2) - _median(without[1:], 2), "MB", _RSS_TARGET_MB)


def _start(root: Path, *options: str) -> tuple[float, float, float]:
    """Milliseconds and processor time until a node answers, and its memory in MB after one list."""
    began = time.perf_counter()
    with _node(root, *options) as node:
        took_ms, cpu_ms = (time.perf_counter() - began) * 1000, cpu_seconds(node.pid) * 1000
        if options:
            ApiClient(root).fresh(_LIST)
        else:
            NodeClient(root).get(_PODS)
        return took_ms, cpu_ms, rss_mb(node.pid)


def _median(starts: list[tuple[float, float, float]], place: int) -> float:
    return statistics.median(start[place] for start in starts)


# --- requests ---


def _runs(client: ApiClient, connection: Connection, runs: int) -> Iterator[Figure]:
    took_ms = []
    for number in range(runs + 1):
        with client.connect() as watching:
            watching.watch(f"{_PODS}?watch=true&resourceVersion={_version(connection)}")
            began = time.perf_counter()
            connection.ask("POST", _PODS, _pod(f"one-{number}"))
            _await(watching, b'"phase": "Running"')
            took_ms.append((time.perf_counter() - began) * 1000)
            connection.ask("DELETE", f"{_PODS}/one-{number}?gracePeriodSeconds=0")
            _await(watching, b'{"type": "DELETED"')
    yield Figure("api_pod_run_ms", statistics.median(took_ms[1:]), "ms", _RUN_TARGET_MS)


def _lists(
    node: subprocess.Popen[str], client: ApiClient, connection: Connection, count: int, runs: int
) -> Iterator[Figure]:
    """Tables of all pods, as ``kubectl get pods`` asks for them."""
    connection.ask("GET", _LIST, accept=TABLE)
    used = cpu_seconds(node.pid)
    warm_ms = _median_ms(lambda: connection.ask("GET", _LIST, accept=TABLE), runs)
    used_ms = (cpu_seconds(node.pid) - used) * 1000 / runs
    yield Figure(f"api_list_{count}_pods_ms", warm_ms, "ms", _LIST_TARGET_MS)
    yield Figure(f"api_list_{count}_pods_cpu_ms", used_ms, "ms", None)
    fresh_ms = _median_ms(lambda: client.fresh(_LIST), runs)
    yield Figure(f"api_list_{count}_pods_fresh_ms", fresh_ms, "ms", _LIST_TARGET_MS)


def _watched(node: subprocess.Popen[str], client: ApiClient, connection: Connection, pace: Pace) -> Iterator[Figure]:
    count = _WATCHERS[pace]
    with ExitStack() as stack:
        target = f"{_PODS}?watch=true&resourceVersion={_version(connection)}"
        watchers = Watchers(stack, client, target, count)
        took_ms = []
        for number in range(_CHANGES[pace] + 1):
            began = time.perf_counter()
            _annotate(connection, "p0", f"told-{number}-")
            watchers.await_all(f"told-{number}-".encode())
            took_ms.append((time.perf_counter() - began) * 1000)
        yield Figure(f"api_change_to_{count}_watches_ms", statistics.median(took_ms[1:]), "ms", _DELIVERY_TARGET_MS)
        yield Figure(f"node_rss_mb_{count}_watches", rss_mb(node.pid), "MB", _WATCHED_RSS_TARGET_MB)


def _changed(connection: Connection, count: int) -> Iterator[Figure]:
    """Lists of pods that have all changed, so that none is at hand as JSON; a node keeps the last 1,000 changes."""
    changed_ms = []
    for number in range(5):
        for pod in range(count):
            _annotate(connection, f"p{pod}", f"changed-{number}")
        changed_ms.append(_took_ms(lambda: connection.ask("GET", _LIST, accept=TABLE)))
    yield Figure(f"api_list_{count}_changed_pods_ms", statistics.median(changed_ms), "ms", None)


def _idle(node: subprocess.Popen[str], client: ApiClient, pace: Pace) -> Iterator[Figure]:
    """Watches as informers keep them, with bookmarks; and a new client that asks for one pod beside them."""
    count, runs = _IDLE[pace], _RUNS[pace]
    time.sleep(_SETTLE_S)
    alone_ms = _median_ms(lambda: client.fresh(f"{_PODS}/p0"), runs)
    with ExitStack() as stack:
        target = f"{_PODS}?watch=true&allowWatchBookmarks=true&resourceVersion={_version(client.connect())}"
        began = time.perf_counter()
        Watchers(stack, client, target, count)
        yield Figure(f"api_{count}_watches_begin_s", time.perf_counter() - began, "s", None)
        time.sleep(_SETTLE_S)
        used, began = cpu_seconds(node.pid), time.perf_counter()
        time.sleep(_IDLE_WINDOW_S[pace])
        per_minute = 60 / (time.perf_counter() - began)
        yield Figure(
            f"node_cpu_ms_per_min_{count}_watches", (cpu_seconds(node.pid) - used) * 1000 * per_minute, "ms", None
        )
        yield Figure(f"node_rss_mb_{count}_watches", rss_mb(node.pid), "MB", None)
        beside_ms = _median_ms(lambda: client.fresh(f"{_PODS}/p0"), runs)
        yield Figure(f"api_new_client_ms_beside_{count}_watches", beside_ms, "ms", None)
        yield Figure(f"api_new_client_ratio_beside_{count}_watches", beside_ms / alone_ms, "ratio", None)


def _median_ms(step: Callable[[], object], runs: int) -> float:
    return statistics.median(_took_ms(step) for _ in range(runs))


def _took_ms(step: Callable[[], object]) -> float:
    began = time.perf_counter()
    step()
    return (time.perf_counter() - began) * 1000


def _await(watching: Connection, mark: bytes) -> None:
    told = b""
    while mark not in told:
        if not (part := watching.tls.recv(64 * 1024)):
            raise EOFError("the node ended a watch")
        told += part


def _version(connection: Connection) -> str:
    listed: Any = json.loads(connection.ask("GET", f"{_PODS}?limit=1"))
    return str(listed["metadata"]["resourceVersion"])


def _annotate(connection: Connection, name: str, text: str) -> None:
    change = {"metadata": {"annotations": {"example.com/change": text}}}
    connection.ask("PATCH", f"{_PODS}/{name}", change, content_type=_MERGE_PATCH)


# --- the node and its pods ---


@contextmanager
def _pods(client: ApiClient, connection: Connection, count: int) -> Iterator[None]:
    """Pods that run, with the labels of a Deployment's."""
    names = [f"p{number}" for number in range(count)]
    for name in names:
        connection.ask("POST", _PODS, _pod(name))
    _until(lambda: _phases(connection) == {"Running": count})
    try:
        yield
    finally:
        with client.connect() as closing:
            for name in names:
                closing.ask("DELETE", f"{_PODS}/{name}?gracePeriodSeconds=0")
            _until(lambda: not _phases(closing))


def _until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        time.sleep(0.1)


def _phases(connection: Connection) -> Counter[str]:
    body = connection.ask("GET", _LIST)
    listed: Any = json.loads(gzip.decompress(body) if body.startswith(_GZIP) else body)
    return Counter(pod["status"]["phase"] for pod in listed["items"])


def _pod(name: str) -> dict[str, object]:
    labels = {"app.kubernetes.io/name": "gopher", "pod-template-hash": "5d4f8c7b9"}
    container = {"name": "c", "image": "busybox", "command": ["sleep", "100000"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"terminationGracePeriodSeconds": 5, "containers": [container]},
    }


@contextmanager
def _node(root: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    up = [
        "node",
        "up",
        "--name",
        "bench",
        "--runtime",
        "process",
        "--max-pods",
        "1000",
        "--log-level",
        "error",
        *options,
    ]
    argv = [sys.executable, "-m", "plugbay", "--root", str(root), *up]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            while "SIGTERM" not in (line := process.stdout.readline()):
                if not line:
                    raise RuntimeError("the node did not start")
            yield process
        finally:
            process.terminate()
