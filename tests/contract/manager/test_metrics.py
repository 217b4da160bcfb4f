"""The kubelet's metrics of our manager, before and after what they count; and the node's pages."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from plugbay.errors import AdmissionError, RpcCode, RpcFailed
from plugbay.kernel.unix_sockets import is_listening
from plugbay.kubelet.podresources import PodResourcesClient
from plugbay.manager.config import ReleaseLimits
from plugbay.manager.metrics import manager_metrics, pod_resources_metrics
from plugbay.manager.serving.podresources import serve_pod_resources
from plugbay.model.devices import PluginOptions
from plugbay.model.ids import PodUid
from plugbay.model.requests import PodRequest
from plugbay.node.pages import rejections_metric
from plugbay.ops.http_client import UnixHttpClient
from plugbay.ops.metrics import MetricKind, exposition
from plugbay.testing.fakes.plugin import refusing
from plugbay.testing.fakes.watched_plugin import fake_watched_plugin
from plugbay.wire.registration import Registration, register
from tests.contract.conftest import Plugbay
from tests.contract.rigs.http_pages import Page
from tests.contract.rigs.manager import (
    APP,
    DEADLINE_S,
    GOPHER,
    OTHER,
    Bench,
    bench,
    container,
    listed,
    pod,
    registered,
)
from tests.contract.rigs.release import BOTH, gated

PROC = Path("/proc/self")
ALLOCATIONS = "kubelet_device_plugin_alloc_duration_seconds"
REGISTRATIONS = "kubelet_device_plugin_registration_total"
WATCHED = "plugin_manager_total_plugins"


def metrics(b: Bench) -> Page:
    return Page(200, "".join(exposition(manager_metrics(b.manager))), "")


async def test_every_register_call_is_counted_before_it_is_looked_at(sockets: Path) -> None:
    async with bench(sockets) as b:
        assert REGISTRATIONS not in metrics(b).text
        await b.plugin("a")
        for name, version in ((GOPHER, "v1alpha"), ("no name", "v1beta1")):
            with pytest.raises(RpcFailed):
                await register(
                    b.paths.registration_socket,
                    Registration(version, "x.sock", name),
                    options=PluginOptions(),
                    timeout_s=20,
                )
        assert metrics(b).value(REGISTRATIONS, resource_name=GOPHER) == 2
        assert metrics(b).value(REGISTRATIONS, resource_name="invalid") == 1


async def test_counts_may_grow_while_a_scrape_goes_on(sockets: Path) -> None:
    """What is scraped was read at one moment, however long the reader takes."""
    async with gated(sockets) as b:
        await b.plugin("a", options=BOTH)
        await b.admit(pod("p"))
        await b.release("p")
        await b.until(lambda: not b.manager.releases.pending())
        scrape = [(metric, iter(metric.samples)) for metric in manager_metrics(b.manager)]
        before = {metric.name for metric, samples in scrape if next(samples, None) is not None}
        await b.plugin("x", resource=OTHER, options=BOTH)
        await b.admit(PodRequest(PodUid("q"), "default", "q", (container("app", other=1),)))
        await b.release("q")
        await b.until(lambda: not b.manager.releases.pending())
        assert {ALLOCATIONS, REGISTRATIONS, "device_plugin_deallocate_duration_seconds"} <= before
        assert [labels for _, samples in scrape for labels, _ in samples if OTHER in labels.values()] == []


async def test_names_that_are_refused_share_a_label(sockets: Path) -> None:
    async with bench(sockets) as b:
        for number in range(20):
            with pytest.raises(RpcFailed):
                await register(
                    b.paths.registration_socket,
                    Registration("v1beta1", "x.sock", f"no name {number} " + "x" * 10_000),
                    options=PluginOptions(),
                    timeout_s=20,
                )
        assert metrics(b).value(REGISTRATIONS) == 20


@contextmanager
def watcher_says(text: str) -> Iterator[asyncio.Event]:
    """Set once the watcher has logged ``text``; nobody else is told of a plugin that had hung up before."""
    said = asyncio.Event()
    handler = logging.Handler()
    handler.emit = lambda record: said.set() if record.getMessage() == text else None  # type: ignore[method-assign]
    logger = logging.getLogger("plugbay.manager.endpoints.watcher")
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


async def test_watched_plugin_is_a_gauge_and_no_registration(sockets: Path) -> None:
    async with bench(sockets) as b:
        path = b.registry / "p.sock"
        with watcher_says(f"plugin at {path} is no longer registered") as dropped:
            async with fake_watched_plugin(GOPHER, path, listed("a")) as plugin:
                await registered(plugin)
                after = metrics(b)
                assert after.samples(WATCHED) == {
                    (("socket_path", str(path)), ("state", state)): 1
                    for state in ("actual_state_of_world", "desired_state_of_world")
                }
                assert REGISTRATIONS not in after.text
            async with asyncio.timeout(DEADLINE_S):
                await dropped.wait()
        assert not metrics(b).samples(WATCHED)


async def test_every_allocate_call_is_timed_also_one_that_fails(sockets: Path) -> None:
    async with bench(sockets) as b:
        plugin = await b.plugin("a", "b")
        await b.plugin("x", resource=OTHER)
        await b.admit(pod("p"))
        answer = plugin.allocate_answer

        async def slowly(devices: object) -> None:
            b.clock.advance(0.3)
            raise RpcFailed(RpcCode.INTERNAL, "boom")

        plugin.allocate_answer = slowly
        with pytest.raises(AdmissionError):
            await b.admit(pod("q"))
        plugin.allocate_answer = answer
        with suppress(AdmissionError):
            await b.admit(pod("too-many", gopher=5))  # refused before any call
        after = metrics(b)

    def below(bound: str) -> float:
        return after.value(f"{ALLOCATIONS}_bucket", resource_name=GOPHER, le=bound)

    assert [below(bound) for bound in ("0.005", "0.25", "0.5", "10", "+Inf")] == [1, 1, 2, 2, 2]
    assert after.value(f"{ALLOCATIONS}_sum", resource_name=GOPHER) == pytest.approx(0.3)
    assert after.samples(f"{ALLOCATIONS}_count", resource_name=OTHER) == {}
    assert after.value("kubelet_topology_manager_admission_requests_total") == 3
    assert after.value("kubelet_topology_manager_admission_errors_total") == 0  # there is no policy
    assert after.value("kubelet_topology_manager_admission_duration_ms_count") == 3
    assert after.value("kubelet_topology_manager_admission_duration_ms_bucket", le="819.2") == 3
    assert "kubelet_container_aligned_compute_resources" not in after.text


async def test_release_calls_are_timed_by_outcome_and_counted_until_they_are_confirmed(sockets: Path) -> None:
    post_stops, deallocations = "device_plugin_post_stop_duration_seconds", "device_plugin_deallocate_duration_seconds"
    pending, exhausted = "device_plugin_cleanup_pending", "device_plugin_cleanup_exhausted_total"
    async with gated(sockets, release=ReleaseLimits(max_attempts=2)) as b:
        plugin = await b.plugin("a", options=BOTH)
        plugin.deallocate_answer = refusing(RpcCode.INTERNAL, "no power")
        await b.admit(pod("p"))
        before = metrics(b)
        assert not any(before.samples(name) for name in (f"{post_stops}_count", f"{deallocations}_count", pending))
        b.manager.container_ended(PodUid("p"), APP, "i1")
        await b.release("p")
        await b.manager.until_deallocated(PodUid("p"))
        between = metrics(b)
        assert between.value(f"{post_stops}_count", resource_name=GOPHER, code="OK") == 1
        assert between.value(f"{deallocations}_count", resource_name=GOPHER, code="Internal") == 1
        assert between.samples(pending) == {(("operation", "Deallocate"), ("resource_name", GOPHER)): 1}
        assert exhausted not in between.text
        await b.clock.sleep_through(0.5)
        await b.counts(1, 1)
        after = metrics(b)
        assert after.value(f"{deallocations}_count", resource_name=GOPHER, code="Internal") == 2
        assert after.value(exhausted, resource_name=GOPHER, operation="Deallocate") == 1
        assert not after.samples(pending)


async def test_pod_resources_calls_are_counted_as_a_kubelet_counts_them(sockets: Path) -> None:
    async with bench(sockets) as b:
        socket = sockets / "pr" / "kubelet.sock"
        async with serve_pod_resources(
            socket, b.manager.pod_resources(), b.manager.admitted_pods, clock=b.clock
        ) as counts:
            assert "".join(exposition(pod_resources_metrics(counts))) == ""
            async with PodResourcesClient(socket) as client:
                await client.list()
                await client.list()
                await client.get("default", "nobody")
        after = Page(200, "".join(exposition(pod_resources_metrics(counts))), "")
    prefix = "kubelet_pod_resources_endpoint"
    lines = [line for line in after.text.splitlines() if not line.startswith("#")]
    assert lines == [
        f'{prefix}_requests_total{{server_api_version="v1"}} 3',
        f'{prefix}_requests_list{{server_api_version="v1"}} 2',
        f'{prefix}_requests_get{{server_api_version="v1"}} 1',
        f'{prefix}_errors_get{{server_api_version="v1"}} 1',
    ]


def test_rejections_have_one_label_for_all_extended_resources() -> None:
    metric = rejections_metric(Counter({"OutOfexample.com/a": 1, "OutOfexample.com/b": 2, "OutOfcpu": 4}))
    assert metric.kind is MetricKind.COUNTER
    assert list(metric.samples) == [({"reason": "OutOfExtendedResources"}, 3), ({"reason": "OutOfcpu"}, 4)]


async def test_registration_is_healthy_without_its_file_and_not_without_its_listener(sockets: Path) -> None:
    async with bench(sockets) as b:
        socket = b.paths.registration_socket
        assert is_listening(socket, proc=PROC)
        socket.unlink()
        assert is_listening(socket, proc=PROC)
    assert not is_listening(socket, proc=PROC)


async def test_node_answers_from_its_start_to_its_end(plugbay: Plugbay) -> None:
    pages = plugbay.root / "pages.sock"
    client = UnixHttpClient(pages, timeout_s=20)

    async def get(path: str, query: dict[str, str] | None = None) -> tuple[int, str]:
        answer = await asyncio.to_thread(client.request, "GET", path, query=query or {})
        return answer.status, answer.body.decode()

    async with plugbay.node_up("--metrics", f"unix:{pages}"):
        assert await get("/healthz") == (200, "ok")
        assert await get("/healthz", {"verbose": ""}) == (
            200,
            "[+]ping ok\n[+]device-plugin ok\nhealthz check passed\n",
        )
        assert await get("/healthz/device-plugin") == (200, "ok")
        assert await get("/readyz") == (200, "ok")
        _, status = await get("/status")
        assert '"node": "n1"' in status
        _, text = await get("/metrics")
        assert Page(200, text, "").value("kubelet_topology_manager_admission_requests_total") == 0
    assert not pages.exists()


async def test_node_whose_port_is_in_use_does_not_start(plugbay: Plugbay) -> None:
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    async with taken:
        address = "127.0.0.1:{1}".format(*taken.sockets[0].getsockname())
        options = ("--name", "n1", "--runtime", "process", "--metrics", address, "--log-level", "warning")
        code, out, err = await plugbay("node", "up", *options)
    assert (code, out, err) == (1, "", f"plugbay: error: another program is listening at {address}\n")
    assert not (plugbay.root / "device-plugins").exists()
