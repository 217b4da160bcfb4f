"""The export of a node: its metrics, what a kubelet's restart does to them, and the rules and dashboard for them."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from plugbay.errors import RpcCode, RpcFailed
from plugbay.model.ids import ContainerName
from plugbay.model.podresources import ContainerMemory, ContainerResources, PodResources
from plugbay.node.pages import rejections_metric
from plugbay.observe.exporting.exporter import NodeExporter
from plugbay.observe.following import followed
from plugbay.observe.joining.node import join
from plugbay.observe.reading.node import read_node
from plugbay.observe.reading.podresources import AllowedCalls
from plugbay.observe.view import ObservedNode
from plugbay.ops.clock import SystemClock
from plugbay.ops.http_client import UnixHttpClient
from plugbay.ops.listening import UnixAddress
from plugbay.ops.pages import serve_pages
from tests.contract.rigs.seen_kubelet import GPU, SeenKubelet, entry, holding, listening, offered

MONITORING: Final = Path(__file__).parents[3] / "deploy/monitoring"
HOSTILE: Final = 'a"b\\c\nd\x1b[2J<script>'


@pytest.fixture
def kubelet(tmp_path: Path) -> SeenKubelet:
    """One healthy device is held, and one that is not; one is free. A container has CPUs and memory to itself."""
    kubelet = SeenKubelet(tmp_path)
    kubelet.write_checkpoint([entry("u1", "c", "g1"), entry("u2", "c", "g2")], ["g0", "g1"])
    kubelet.add_pod("u1", "web")
    kubelet.add_pod("u2", "bad")
    pinned = ContainerResources(ContainerName("c"), cpu_ids=(2, 3), memory=(ContainerMemory("hugepages-2Mi", 4096),))
    kubelet.pods = [holding("web", "c", "g1"), holding("bad", "c", "g2"), PodResources("default", "cpu", (pinned,))]
    kubelet.devices = offered("g0", "g1")
    return kubelet


class Scraped:
    """The samples of a scrape."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    def of(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        return {tuple(each.labels[label] for label in labels): each.value for each in self.samples if each.name == name}


class Exporting:
    """An exporter at work."""

    def __init__(self, socket: Path, exporter: NodeExporter) -> None:
        self.exporter = exporter
        self._socket = socket

    async def scrape(self) -> Scraped:
        response = await asyncio.to_thread(UnixHttpClient(self._socket).request, "GET", "/metrics")
        return Scraped(response.body.decode())

    async def until(self, name: str, value: float) -> Scraped:
        """Scrape until a metric without labels has a value; every scrape shows the containers."""
        async with asyncio.timeout(20):
            while (scraped := await self.scrape()).of(name) != {(): value}:
                assert scraped.of("plugbay_node_container_devices", "pod")
                await asyncio.sleep(0.02)
        return scraped


@asynccontextmanager
async def exporting(kubelet: SeenKubelet, **options: Any) -> AsyncIterator[Exporting]:
    async def read() -> ObservedNode:
        found = await read_node(kubelet.places(), now=SystemClock().now(), asking=AllowedCalls.LIST, deadline_s=0.5)
        return join(found)

    exporter = NodeExporter(SystemClock(), **options)
    socket = kubelet.base / "export.sock"
    views = followed(read, kubelet.places())
    await exporter.show(await anext(views))

    async def follow() -> None:
        async for view in views:
            await exporter.show(view)

    async with serve_pages(exporter.pages(), UnixAddress(socket), max_age_s=0), asyncio.TaskGroup() as tasks:
        following = tasks.create_task(follow())
        yield Exporting(socket, exporter)
        following.cancel()


async def test_devices_holders_cpus_and_memory_are_counted(kubelet: SeenKubelet) -> None:
    kubelet.memory = (ContainerMemory("hugepages-2Mi", 8192, (0,)), ContainerMemory("hugepages-2Mi", 4096, (1,)))
    with listening(kubelet.device_plugins / "gpu.sock"):
        async with kubelet.answering(), exporting(kubelet) as export:
            found = await export.scrape()
    assert found.of("plugbay_node_devices", "health") == {("Healthy",): 2, ("Unhealthy",): 1, ("Unknown",): 0}
    for name, value in (("allocatable", 2), ("allocated", 2), ("free", 1)):
        assert found.of(f"plugbay_node_resource_{name}", "resource_name") == {(GPU,): value}
    named = ("device", "health", "numa_node", "namespace", "pod", "container")
    assert found.of("plugbay_node_device_assigned", *named) == {
        ("g1", "Healthy", "0", "default", "web", "c"): 1,
        ("g2", "Unhealthy", "0", "default", "bad", "c"): 1,
    }
    assert found.of("plugbay_node_container_unhealthy_devices", "pod") == {("bad",): 1}
    assert found.of("plugbay_node_cpus", "pool") == {("allocatable",): 4, ("exclusive",): 2, ("shared",): 2}
    assert found.of("plugbay_node_memory_bytes", "memory_type") == {("hugepages-2Mi",): 12288}
    assert found.of("plugbay_node_container_exclusive_memory_bytes", "pod", "memory_type") == {
        ("cpu", "hugepages-2Mi"): 4096
    }
    assert found.of("plugbay_node_plugin_socket_listening", "socket") == {("gpu.sock",): 1}
    assert found.of("plugbay_node_checkpoint_valid") == {(): 1}
    assert set(found.of("plugbay_node_source_up", "source").values()) == {1}
    described = re.findall("^# TYPE (.*)", found.text, re.MULTILINE)
    assert len(described) == len(set(described))


async def test_cpus_and_memory_of_a_pod_as_a_whole_are_counted_once(kubelet: SeenKubelet) -> None:
    kubelet.cpus = (0, 1, 2, 3, 4, 5)
    pinned = ContainerResources(ContainerName("c"), cpu_ids=(2,), memory=(ContainerMemory("memory", 1024),))
    containers = (pinned, ContainerResources(ContainerName("d")))
    memory = (ContainerMemory("memory", 4096),)
    kubelet.pods = [PodResources("default", "cpu", containers, cpu_ids=(2, 3, 4), memory=memory)]
    async with kubelet.answering(), exporting(kubelet) as export:
        found = await export.scrape()
    assert found.of("plugbay_node_cpus", "pool") == {("allocatable",): 6, ("exclusive",): 3, ("shared",): 3}
    assert found.of("plugbay_node_container_exclusive_cpus", "pod", "container") == {("cpu", "c"): 1, ("cpu", ""): 2}
    exclusive = found.of("plugbay_node_container_exclusive_memory_bytes", "pod", "container")
    assert exclusive == {("cpu", "c"): 1024, ("cpu", ""): 3072}


async def test_kubelet_that_manages_no_cpus_has_no_series_of_them(kubelet: SeenKubelet) -> None:
    kubelet.cpus, kubelet.pods = (), [holding("web", "c", "g1")]
    async with kubelet.answering(), exporting(kubelet) as export:
        found = await export.scrape()
    assert not found.of("plugbay_node_cpus", "pool")


async def test_a_kubelet_that_restarts_leaves_no_gap(kubelet: SeenKubelet) -> None:
    async with exporting(kubelet) as export:
        async with kubelet.answering():
            await export.until("plugbay_node_view_stale", 0)
            whole = await export.scrape()
        gone = await export.until("plugbay_node_view_stale", 1)
        assert gone.of("plugbay_node_device_assigned", "pod") == whole.of("plugbay_node_device_assigned", "pod")
        kubelet.pods = kubelet.pods[:1]
        async with kubelet.answering():
            back = await export.until("plugbay_node_view_stale", 0)
    assert back.of("plugbay_node_container_devices", "pod") == {("web",): 1}
    assert back.of("plugbay_node_view_age_seconds")[()] < 10


async def test_a_kubelet_that_was_down_from_the_start_is_told_by_what_an_alert_asks_for(kubelet: SeenKubelet) -> None:
    async with exporting(kubelet) as export:
        found = await export.scrape()
    groups = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]
    [rule] = [rule for group in groups for rule in group["rules"] if rule["alert"] == "PlugbayKubeletUnseen"]
    assert rule["expr"] == 'plugbay_node_source_up{source="podresources"} == 0'
    assert found.of("plugbay_node_source_up", "source")[("podresources",)] == 0


async def test_series_are_bounded_and_those_left_out_counted(kubelet: SeenKubelet) -> None:
    async with kubelet.answering(), exporting(kubelet, max_series=1) as export:
        found = await export.scrape()
    assert len(found.of("plugbay_node_device_assigned", "device")) == 1
    dropped = found.of("plugbay_node_series_dropped", "metric")
    assert (dropped["plugbay_node_device_assigned",], dropped["plugbay_node_devices",]) == (1, 2)


async def test_hostile_names_stay_inside_their_labels(kubelet: SeenKubelet) -> None:
    kubelet.pods = [holding(HOSTILE, "c", HOSTILE)]
    kubelet.devices = offered(HOSTILE)
    async with kubelet.answering(), exporting(kubelet) as export:
        found = await export.scrape()
    assert (HOSTILE, HOSTILE) in found.of("plugbay_node_device_assigned", "device", "pod")


async def test_hostile_error_of_the_kubelet_stays_on_its_line_of_readyz(kubelet: SeenKubelet) -> None:
    kubelet.refusal = RpcFailed(RpcCode.INTERNAL, f"{HOSTILE}\nok")
    async with kubelet.answering(), exporting(kubelet):
        socket = UnixHttpClient(kubelet.base / "export.sock")
        unready = (await asyncio.to_thread(socket.request, "GET", "/readyz")).body.decode()
    (line,) = unready.splitlines()
    assert line.isprintable()
    assert r"d\x1b[2J<script>\nok" in line


def expressions() -> Iterator[Any]:
    """Those about an export; the rest is about the kubelet's own metrics."""
    for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]:
        for rule in group["rules"] if group["name"].startswith("plugbay") else ():
            yield pytest.param(rule["expr"], id=rule["alert"])
    for panel in json.loads((MONITORING / "dashboard.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield pytest.param(target["expr"], id=f"{panel['title']} {target['refId']}")


SELECTOR: Final = re.compile(r"(?P<name>plugbay_\w+)(?:\{(?P<labels>[^}]*)\})?")
LABELS: Final = re.compile(r"\b(?:by|on|without|ignoring) \((?P<names>[^)]*)\)")
MATCHER: Final = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"[^"]*"')
OF_PROMETHEUS: Final = "instance"


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The labels of each metric of an export in which no metric is empty."""
    kubelet = SeenKubelet(tmp_path_factory.mktemp("everything"))
    kubelet.write_checkpoint([entry("u1", "c", "g1")], ["g0"])
    pinned = ContainerResources(ContainerName("c"), cpu_ids=(2,), memory=(ContainerMemory("memory", 4096),))
    kubelet.pods = [holding("web", "c", "g1"), PodResources("default", "cpu", (pinned,))]
    kubelet.devices = offered("g0")
    kubelet.memory = (ContainerMemory("memory", 1 << 30, (0,)),)

    async def scraped() -> str:
        with listening(kubelet.device_plugins / "gpu.sock"):
            async with kubelet.answering(), exporting(kubelet) as export:
                return (await export.scrape()).text

    text = asyncio.run(scraped())
    return {family.name: set().union(*(sample.labels for sample in family.samples)) for family in families(text)}


def families(text: str) -> Iterator[Any]:
    for family in text_string_to_metric_families(text):
        if family.type == "counter":
            family.name += "_total"
        yield family


OWN: Final = {
    "plugbay_node_plugin_registered_timestamp_seconds": {"resource_name"},
    "plugbay_node_admission_failures_total": {"reason"},
}
"""Metrics that only a node of plugbay has; `test_own_node` holds their labels."""


@pytest.mark.parametrize("expression", list(expressions()))
def test_rules_and_dashboard_ask_for_what_an_export_has(expression: str, everything: dict[str, set[str]]) -> None:
    known = {**OWN, **everything}
    found = list(SELECTOR.finditer(expression))
    assert found
    for selector in found:
        labels = {*known[selector["name"]], OF_PROMETHEUS}
        assert set(MATCHER.findall(selector["labels"] or "")) <= labels
        assert not MATCHER.sub("", selector["labels"] or "").strip(" ,")
        for clause in LABELS.finditer(expression):
            assert {name.strip() for name in clause["names"].split(",")} <= labels
    assert expression.count("(") == expression.count(")")


def test_alerts_on_growth_see_the_first_count_of_a_series() -> None:
    """`increase` does not see what a series begins with, and ours begin with the first event."""
    rules = [
        rule for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
    ]
    grown = [(rule["expr"], name) for rule in rules for name in re.findall(r"increase\((\w+)", rule["expr"])]
    assert grown
    assert all(f"or ({name} unless {name} offset 15m)" in expression for expression, name in grown)


def test_rule_about_a_kubelet_asks_for_the_counter_that_kubelets_have() -> None:
    """Our node has the same counter under the same name."""
    groups = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]
    [rule] = [rule for group in groups for rule in group["rules"] if rule["alert"] == "KubeletAdmissionFailures"]
    metric = rejections_metric(Counter(OutOfcpu=1))
    assert set(re.findall(r"kubelet_\w+", rule["expr"])) == {metric.name}
    assert [set(labels) for labels, _ in metric.samples] == [{"reason"}]


def test_templates_of_alerts_name_labels_that_the_alert_has() -> None:
    for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            named = re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"]))
            by = LABELS.search(rule["expr"])
            if by and rule["expr"].startswith("sum by"):
                assert set(named) <= {name.strip() for name in by["names"].split(",")}
            assert rule["labels"]["severity"] in ("info", "warning", "critical")


async def test_the_command_serves_until_it_is_told_to_stop(kubelet: SeenKubelet) -> None:
    socket = kubelet.base / "export.sock"
    command = (sys.executable, "-m", "plugbay", "export", "--listen", f"unix:{socket}", *kubelet.argv)
    async with kubelet.answering(), asyncio.timeout(40):
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        assert process.stderr is not None
        assert b" are answered at " in await process.stderr.readline()
        second = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        _, told = await second.communicate()
        assert (second.returncode, told.decode()) == (1, f"plugbay: error: another program is listening at {socket}\n")
        exporting = Exporting(socket, NodeExporter(SystemClock()))
        while not (found := await exporting.scrape()).of("plugbay_node_resource_free"):  # noqa: ASYNC110 - it is a process
            await asyncio.sleep(0.05)
        assert found.of("plugbay_node_container_devices", "pod") == {("web",): 1, ("bad",): 1}
        assert "List" not in kubelet.asked
        process.terminate()
        assert await process.wait() == 0
