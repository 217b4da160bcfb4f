"""The pages of a plugin process, before and after real registrations, calls and restarts."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import NoReturn

import pytest

from plugbay import Assignment, ContainerEdits, Device, DevicePlugin, Health, health, resources, unhealthy
from plugbay.errors import RpcFailed
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import DeviceId
from plugbay.model.podresources import PodResources
from plugbay.ops.clock import SystemClock
from plugbay.ops.http_client import UnixHttpClient
from plugbay.ops.listening import Address
from plugbay.ops.metrics import Metric, MetricKind
from plugbay.ops.pages import serve_pages
from plugbay.sdk.process import pages as pages_module
from plugbay.sdk.process.pages import PluginPages
from plugbay.sdk.process.roster import Roster
from plugbay.sdk.process.sources import Member
from plugbay.sdk.serving.server import PluginServer
from plugbay.sdk.watching import watching
from plugbay.testing.fakes.kubelet import fake_kubelet
from tests.contract.conftest import Plugbay
from tests.contract.rigs.http_pages import LOOPBACK, page, page_once, page_until

NAME = "example.com/thing"
OTHER = "example.com/other"
PROC = Path("/proc/self")


class Things(DevicePlugin):
    """A plugin whose devices a test sets."""

    def __init__(self, *names: str, resource: str = NAME) -> None:
        self.resource_name = resource
        self.devices: Iterable[Device] | Exception = [Device(name) for name in names]

    def discover(self) -> Iterable[Device]:
        if isinstance(self.devices, Exception):
            raise self.devices
        return self.devices

    def allocate(self, devices: Iterable[Device]) -> ContainerEdits:
        if any(device.id == "bad" for device in devices):
            raise RuntimeError("no")
        return ContainerEdits()


@pytest.fixture
def paths(sockets: Path) -> KubeletPaths:
    return KubeletPaths(sockets)


@asynccontextmanager
async def served(paths: KubeletPaths, *plugins: Member) -> AsyncIterator[Address]:
    """The plugins, and the address of their pages."""
    pages = PluginPages(SystemClock(), version="1.2.3", proc=PROC)
    async with serve_pages(pages.pages(), LOOPBACK, max_age_s=0) as address, watching() as watches:
        roster = Roster(lambda plugin: PluginServer(plugin, paths), watches)
        async with roster.serving(plugins):
            pages.roster = roster
            yield address


async def test_process_is_unready_before_anything_is_served() -> None:
    pages = PluginPages(SystemClock(), version="1.2.3", proc=PROC)
    async with serve_pages(pages.pages(), LOOPBACK, max_age_s=0) as at:
        assert (await page(at, "/readyz"))[:2] == (503, "nothing is served yet\n")
        assert (await page(at, "/health"))[:2] == (503, "nothing is served yet\n")
        assert (await page(at, "/healthz")).text == "ok"
        assert (await page(at, "/metrics")).value("process_resident_memory_bytes") > 1_000_000


async def test_readiness_follows_the_kubelet_through_its_restart(paths: KubeletPaths) -> None:
    async with fake_kubelet(paths) as kubelet, served(paths, Things("a"), Things("b", resource=OTHER)) as at:
        await page_once(at, "/readyz", 200)
        await page_once(at, "/health", 200)
        await page_once(at, "/livez", 200)
        assert {state_of(each) for each in (await page(at, "/status")).json()["resources"]} == {"streaming"}
        await kubelet.stop()
        unready = (await page_once(at, "/readyz", 503)).text.splitlines()
        assert all(re.fullmatch(rf"({NAME}|{OTHER}): .+, since [0-9T:.-]+Z", line) for line in unready)
        kubelet.refusal = "not today"
        await kubelet.start()
        refused = f"{NAME}: refused by the kubelet: not today"
        await page_until(at, "/readyz", lambda reasons: refused in reasons.text)
        kubelet.refusal = None
        await kubelet.restart()
        await page_once(at, "/readyz", 200)
        metrics = await page(at, "/metrics")
        assert metrics.value("plugbay_registrations_total", resource_name=NAME, outcome="accepted") == 2
        assert metrics.value("plugbay_registrations_total", resource_name=NAME, outcome="refused") >= 1
        assert metrics.value("plugbay_streams_opened_total", resource_name=NAME) == 2
        assert metrics.value("plugbay_streams_open", resource_name=NAME) == 1
        assert metrics.value("plugbay_resource_state", resource_name=NAME, state="streaming") == 1
        assert metrics.value("plugbay_resource_state", resource_name=NAME, state="serving") == 0
        of_thing = (await page(at, "/status")).json()["resources"][0]
        assert of_thing["lastRefusal"]["message"] == "not today"
        assert of_thing["lastRefusal"]["time"] < of_thing["lastRegistration"] <= of_thing["since"]
        assert of_thing["refusals"] >= 1


class Measuring:
    """A source with a metric of its own, whose measuring a test decides."""

    def __init__(self, name: str, measure: Callable[[], Awaitable[float]]) -> None:
        self.name = name
        self.members = ()
        self._measure = measure

    def refresh(self) -> None: ...

    async def run(self, watches: object, changed: Callable[[], None]) -> NoReturn:
        changed()
        await asyncio.Event().wait()
        raise AssertionError

    async def metrics(self, pods: Sequence[PodResources] | None) -> Sequence[Metric]:
        assert pods is None  # nothing says that asking this kubelet does no harm
        value = await self._measure()
        return [Metric("measured", MetricKind.GAUGE, "By a test.", [({"source": self.name}, value)])]


async def test_sources_add_metrics_and_one_that_fails_or_hangs_costs_only_its_own(
    paths: KubeletPaths, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pages_module, "MEASURING_S", 0.05)

    async def works() -> float:
        return 7.0

    async def fails() -> float:
        raise OSError("no bus")

    async def hangs() -> float:
        await asyncio.Event().wait()
        raise AssertionError

    sources = [Measuring(measure.__name__, measure) for measure in (fails, hangs, works)]
    async with fake_kubelet(paths), served(paths, *sources) as at:
        metrics = await page(at, "/metrics")
    assert metrics.samples("measured") == {(("source", "works"),): 7.0}
    assert metrics.value("process_resident_memory_bytes") > 0
    assert "metrics of fails are left out of the page, as measuring them failed" in caplog.text
    assert "metrics of hangs are left out of the page, as they were not there within 0.05 s" in caplog.text
    assert caplog.text.count("Traceback") == 1, "only what failed has a trace"


async def test_what_is_missing_is_a_reason(paths: KubeletPaths) -> None:
    """A resource that two give has one plugin; a source that fails has none."""

    @resources()
    def broken() -> list[DevicePlugin]:
        raise OSError("no bus")

    @resources()
    def late() -> list[DevicePlugin]:
        return [Things("b")]

    async with fake_kubelet(paths), served(paths, Things("a"), broken, late) as at:
        missing = [
            f"{NAME}: not served: two plugins serve {NAME}; a kubelet takes only one",
            f"{broken.name}: no look for resources has succeeded yet",
        ]
        await page_until(at, "/readyz", lambda reasons: reasons.text.splitlines() == missing)
        assert (await page(at, "/status")).json()["missing"] == missing


def state_of(resource: dict[str, str]) -> str:
    return resource["state"]


async def test_calls_are_counted_with_their_outcome(paths: KubeletPaths) -> None:
    async with fake_kubelet(paths) as kubelet, served(paths, Things("bad", "good")) as at:
        plugin = await kubelet.next_registration()
        before = await page(at, "/metrics")
        assert before.samples("plugbay_call_duration_seconds_count") == {}
        await plugin.client.allocate([DeviceId("good")])
        await plugin.client.allocate([DeviceId("good")])
        with pytest.raises(RpcFailed, match="no"):
            await plugin.client.allocate([DeviceId("bad")])
        with pytest.raises(RpcFailed):
            await plugin.client.pre_start_container([DeviceId("unknown")])
        after = await page(at, "/metrics")

    def calls(method: str, outcome: str) -> float:
        return after.value("plugbay_call_duration_seconds_count", resource_name=NAME, method=method, outcome=outcome)

    assert (calls("Allocate", "ok"), calls("Allocate", "failed")) == (2, 1)
    assert calls("PreStartContainer", "failed") == 1
    assert after.value("plugbay_call_duration_seconds_bucket", method="Allocate", outcome="ok", le="+Inf") == 2


async def test_devices_their_changes_and_transitions_are_counted(paths: KubeletPaths) -> None:
    class Checked(Things):
        verdict = True

        @health(every=0.01, fall=1)
        def check(self, device: Device) -> Health | bool:
            return True if self.verdict or device.id != "a" else unhealthy("TooHot", "90 °C")

    made = Checked("a", "b")
    async with fake_kubelet(paths) as kubelet, served(paths, made) as at:
        plugin = await kubelet.next_registration()
        while not all(device.is_healthy for device in plugin.devices.values()) or len(plugin.devices) != 2:
            await plugin.next_list()
        first = await page(at, "/metrics")
        made.verdict = False
        while plugin.devices[DeviceId("a")].is_healthy:
            await plugin.next_list()
        made.devices = [Device("a"), Device("c", env={"X": "1"})]
        made.refresh()
        await plugin.until_devices("a", "c")
        second = await page(at, "/metrics")
        [resource] = (await page(at, "/status")).json()["resources"]
    assert first.value("plugbay_devices", health="Healthy") == 2
    assert first.value("plugbay_devices", health="Unhealthy") == 0
    assert second.value("plugbay_devices", health="Unhealthy") == 1
    assert second.value("plugbay_device_health_transitions_total", health="Unhealthy", reason="TooHot") == 1
    assert first.value("plugbay_device_changes_total", change="added") == 2
    assert second.value("plugbay_device_changes_total", change="added") == 3
    assert second.value("plugbay_device_changes_total", change="removed") == 1
    assert second.value("plugbay_discovery_duration_seconds_count") == 2
    hot = resource["devices"][0]
    assert hot["id"] == "a"
    assert (hot["health"]["reason"], hot["health"]["message"]) == ("TooHot", "90 °C")
    assert datetime.fromisoformat(hot["health"]["since"]) <= datetime.now().astimezone()
    assert resource["checks"] == [
        {"name": "check", "everySeconds": 0.01, "timeoutSeconds": 5.0, "fall": 1, "rise": 1, "isolated": False}
    ]
    assert resource["kubeletRoot"] == str(paths.root)
    assert resource["discovery"]["last"]["problem"] == ""


async def test_what_is_not_released_yet_is_counted(paths: KubeletPaths) -> None:
    class Cleaned(Things):
        def release(self, assignment: Assignment) -> None: ...

    async with fake_kubelet(paths) as kubelet, served(paths, Cleaned("good"), Things("a", resource=OTHER)) as at:
        plugins = [await kubelet.next_registration() for _ in range(2)]
        [cleaned] = [each for each in plugins if each.registration.resource_name == NAME]
        assert (await page(at, "/metrics")).value("plugbay_assignments", phase="open") == 0
        await cleaned.client.allocate([DeviceId("good")])
        metrics = await page(at, "/metrics")
    assert metrics.value("plugbay_assignments", phase="open", resource_name=NAME) == 1
    assert metrics.value("plugbay_releases_total", outcome="ok") == 0
    assert metrics.samples("plugbay_checkpoint_readings_total", resource_name=OTHER) == {}


async def test_failing_discovery_is_counted_and_told(paths: KubeletPaths) -> None:
    made = Things("a")
    async with fake_kubelet(paths) as kubelet, served(paths, made) as at:
        await kubelet.next_registration()
        assert (await page(at, "/metrics")).value("plugbay_discovery_failures_total") == 0
        made.devices = RuntimeError("out of order")
        made.refresh()
        await page_until(at, "/metrics", lambda metrics: metrics.value("plugbay_discovery_failures_total") > 0)
        [resource] = (await page(at, "/status")).json()["resources"]
    assert resource["discovery"]["last"]["problem"].startswith("RuntimeError: out of order (test_pages.py:")


async def test_failing_first_look_is_the_reason(paths: KubeletPaths) -> None:
    made = Things()
    made.devices = RuntimeError("out of order")
    async with fake_kubelet(paths), served(paths, made) as at:
        reason = f"{NAME}: starting: RuntimeError: out of order (test_pages.py:"
        await page_until(at, "/readyz", lambda reasons: reasons.text.startswith(reason))


async def test_command_answers_on_a_unix_socket_until_its_end(plugbay: Plugbay) -> None:
    gophers = plugbay.root / "gophers"
    gophers.mkdir()
    (gophers / "g1").touch()
    pages = plugbay.root / "pages.sock"
    directory = ("directory", "--resource", NAME, "--path", str(gophers), "--env", "G")
    async with fake_kubelet(KubeletPaths(plugbay.root)) as kubelet:
        async with plugbay.start("serve", *directory, "--metrics", f"unix:{pages}") as process:
            await kubelet.next_registration()
            client = UnixHttpClient(pages, timeout_s=20)
            status = (await asyncio.to_thread(client.request, "GET", "/status")).body
            assert b'"resourceName": "example.com/thing"' in status
            assert await asyncio.to_thread(os.path.exists, pages)
            process.terminate()
            assert await process.wait() == 0
        assert not pages.exists()


async def test_port_in_use_is_one_sentence_and_nothing_is_registered(plugbay: Plugbay) -> None:
    async with (
        fake_kubelet(KubeletPaths(plugbay.root)) as kubelet,
        serve_pages(PluginPages(SystemClock(), version="", proc=PROC).pages(), LOOPBACK) as taken,
    ):
        directory = ("directory", "--resource", NAME, "--path", "/none", "--env", "G")
        code, out, err = await plugbay("serve", *directory, "--metrics", str(taken))
        assert (code, out, err) == (1, "", f"plugbay: error: another program is listening at {taken}\n")
        assert kubelet.attempts == []
    assert list(KubeletPaths(plugbay.root).device_plugins.iterdir()) == []


async def test_address_that_is_none_is_said_before_anything_is_served(plugbay: Plugbay) -> None:
    code, _, err = await plugbay(
        "serve", "directory", "--resource", NAME, "--path", "/x", "--env", "G", "--metrics", "9400"
    )
    assert code == 2
    assert "'9400' is not an address to listen at" in err
