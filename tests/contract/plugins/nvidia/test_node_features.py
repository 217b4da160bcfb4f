"""NodeFeature objects, written to the API of a cluster over TLS."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plugbay.errors import ClusterUnusable
from plugbay.ops.cluster import ClusterApi
from plugbay.plugins.nvidia.config.arguments import parse_arguments
from plugbay.plugins.nvidia.labels.discovery import FeatureDiscovery, load_features
from plugbay.plugins.nvidia.labels.node_feature import FeatureTarget
from plugbay.plugins.nvidia.labels.publishing import FeaturePublisher, Publication
from plugbay.plugins.nvidia.labels.settings import FEATURE_FLAGS, FeatureSettings
from plugbay.plugins.nvidia.nvml.client import NvmlSettings
from plugbay.testing.clock import ManualClock
from plugbay.testing.fakenvml import fake_driver, lay_out_machine, t4
from tests.contract.rigs.cluster import FakeCluster, fake_cluster, tls
from tests.contract.rigs.gpu_node import until
from tests.contract.rigs.nvidia import DEADLINE_S, environ_of

__all__ = ["tls"]

TARGET = FeatureTarget("gpu", "node-1", "gfd-x")
OBJECTS = "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/gpu/nodefeatures"
PATH = f"{OBJECTS}/nvidia-features-for-node-1"
POD = "/api/v1/namespaces/gpu/pods/gfd-x"
LABELS = {"nvidia.com/gpu.count": "1"}
DAEMON_SET = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "gfd", "uid": "d"}


@pytest.fixture
def cluster(tmp_path: Path, tls: Path) -> Iterator[FakeCluster]:
    with fake_cluster(tmp_path, tls) as served:
        yield served


def pod(*owners: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "gfd-x", "uid": "p", "ownerReferences": [{"controller": True, **o} for o in owners]}}


def test_an_object_is_created_and_kept_up(cluster: FakeCluster) -> None:
    publisher = FeaturePublisher(cluster.api, FeatureTarget("gpu", "node-1"))
    assert publisher.publish(LABELS) is Publication.CREATED
    made = cluster.objects[PATH]
    assert made["apiVersion"] == "nfd.k8s-sigs.io/v1alpha1"
    assert made["kind"] == "NodeFeature"
    assert made["metadata"]["labels"] == {"nfd.node.kubernetes.io/node-name": "node-1"}
    assert made["spec"] == {"features": {"flags": {}, "attributes": {}, "instances": {}}, "labels": LABELS}
    assert publisher.publish(LABELS) is Publication.UNCHANGED
    cluster.objects[PATH]["metadata"] |= {"annotations": {"of": "others"}, "labels": {}}
    assert publisher.publish({}) is Publication.UPDATED
    assert cluster.objects[PATH]["metadata"]["labels"] == {"nfd.node.kubernetes.io/node-name": "node-1"}
    assert cluster.objects[PATH]["metadata"]["annotations"] == {"of": "others"}
    assert [each for each in cluster.requests if each[0] != "GET"] == [("POST", OBJECTS), ("PUT", PATH)]


@pytest.mark.parametrize(
    ("found", "owners"),
    [
        (pod(DAEMON_SET), ["DaemonSet", "Pod"]),
        (pod(), []),
        (pod({**DAEMON_SET, "kind": "ReplicaSet"}), []),
        (None, []),
    ],
    ids=["daemon-set", "bare", "replica-set", "missing"],
)
def test_scenario_115_owners_are_the_daemon_set_and_the_pod(
    found: dict[str, Any] | None, owners: list[str], cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    if found is not None:
        cluster.objects[POD] = found
    FeaturePublisher(cluster.api, TARGET).publish(LABELS)
    references = cluster.objects[PATH]["metadata"].get("ownerReferences", [])
    assert [each["kind"] for each in references] == owners
    assert [each.get("controller", False) for each in references] == [True, False][: len(owners)]
    assert ("pod gpu/gfd-x cannot be read: status 404" in caplog.text) is (found is None)


def test_scenario_115_without_the_name_of_a_pod_there_are_no_owners(cluster: FakeCluster) -> None:
    FeaturePublisher(cluster.api, FeatureTarget("gpu", "node-1")).publish(LABELS)
    assert "ownerReferences" not in cluster.objects[PATH]["metadata"]
    assert ("GET", POD) not in cluster.requests


def test_owners_stay_while_the_pod_cannot_be_read(cluster: FakeCluster) -> None:
    cluster.objects[POD] = pod(DAEMON_SET)
    FeaturePublisher(cluster.api, TARGET).publish(LABELS)
    cluster.forbidden = (POD,)
    other = FeaturePublisher(cluster.api, TARGET)
    assert other.publish({"a": "b"}) is Publication.UPDATED
    assert len(cluster.objects[PATH]["metadata"]["ownerReferences"]) == 2


def test_an_object_that_something_else_writes_meanwhile_is_read_again(cluster: FakeCluster) -> None:
    publisher = FeaturePublisher(cluster.api, FeatureTarget("gpu", "node-1"))
    cluster.refusals = [409, 409]
    assert publisher.publish(LABELS) is Publication.CREATED
    cluster.refusals = [409, 409, 409]
    with pytest.raises(ClusterUnusable, match="gpu/nvidia-features-for-node-1 cannot be written: status 409"):
        publisher.publish({})


def test_refusals_say_what_is_needed(cluster: FakeCluster, tmp_path: Path) -> None:
    publisher = FeaturePublisher(cluster.api, FeatureTarget("gpu", "node-1"))
    cluster.forbidden = (OBJECTS,)
    with pytest.raises(ClusterUnusable, match=r"cannot be read: status 403: .* is forbidden; the service account"):
        publisher.publish(LABELS)
    cluster.forbidden, cluster.refusals = (), [404]
    with pytest.raises(ClusterUnusable, match=r"cannot be written: status 404: refused; is Node Feature Discovery i"):
        publisher.publish(LABELS)
    (tmp_path / "token").write_text("stale")
    with pytest.raises(ClusterUnusable, match="status 401"):
        publisher.publish(LABELS)


def test_a_cluster_with_another_certificate_is_not_believed(cluster: FakeCluster, tls: Path, tmp_path: Path) -> None:
    account = tmp_path / "other"
    account.mkdir()
    (account / "token").write_text("secret")
    (account / "ca.crt").write_bytes((tls / "server.crt").read_bytes())
    with pytest.raises(ClusterUnusable, match=r"the cluster cannot be asked at https://127\.0\.0\.1.*certificate"):
        FeaturePublisher(ClusterApi(cluster.url, account), FeatureTarget("gpu", "n")).publish(LABELS)
    assert cluster.requests == []


def settings_of(*arguments: str) -> FeatureSettings:
    words = ("--use-node-feature-api", "--namespace=gpu", "--node-name=node-1", "--no-timestamp", *arguments)
    return load_features(parse_arguments(words, FEATURE_FLAGS), {})


async def test_rounds_go_on_when_the_cluster_does_not_answer_for_a_while(
    cluster: FakeCluster, nvml_library: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root, clock, machine = tmp_path / "machine", ManualClock(), t4()
    await asyncio.to_thread(lay_out_machine, root, machine)
    async with fake_driver(machine, library=nvml_library) as driver:
        nvml = NvmlSettings(environ=environ_of(driver))
        discovery = FeatureDiscovery(settings_of, root, show=print, clock=clock, connect=lambda: cluster.api, nvml=nvml)
        async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
            tasks.create_task(discovery.run())
            await until(lambda: clock.sleepers)
            assert cluster.objects[PATH]["spec"]["labels"]["nvidia.com/gpu.product"] == "Tesla-T4"
            cluster.forbidden = (OBJECTS,)
            clock.advance(60.0)
            await until(lambda: "its labels are those of an earlier round" in caplog.text)
            await until(lambda: clock.sleepers)
            cluster.forbidden = ()
            del cluster.objects[PATH]
            clock.advance(60.0)
            await until(lambda: PATH in cluster.objects)
            discovery.stop()
    assert PATH in cluster.objects, "it goes with its owners"


async def test_a_cluster_that_refuses_at_the_start_ends_the_program(
    cluster: FakeCluster, nvml_library: Path, tmp_path: Path
) -> None:
    cluster.forbidden = (OBJECTS,)
    async with fake_driver(t4(), library=nvml_library) as driver:
        nvml = NvmlSettings(environ=environ_of(driver))
        for settings in (settings_of(), settings_of("--oneshot")):
            discovery = FeatureDiscovery(
                lambda settings=settings: settings,  # type: ignore[misc]
                tmp_path,
                show=print,
                clock=ManualClock(),
                connect=lambda: cluster.api,
                nvml=nvml,
            )
            with pytest.raises(ClusterUnusable, match="status 403"):
                await discovery.run()


async def test_the_command_needs_a_cluster(nvml_library: Path, tmp_path: Path) -> None:
    async with fake_driver(t4(), library=nvml_library) as driver:
        environ = {name: value for name, value in environ_of(driver).items() if not name.startswith("KUBERNETES")}
        words = ("--use-node-feature-api", "--oneshot", f"--machine-root={tmp_path}")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "plugbay", "nvidia", "labels", *words),
            env={**environ, "NODE_NAME": "node-1"},
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(DEADLINE_S):
                _, said = await process.communicate()
        finally:
            if process.returncode is None:
                os.kill(process.pid, signal.SIGKILL)
                await process.wait()
    assert process.returncode == 1
    assert b"labels are to go to a NodeFeature object, and this process is not a pod of a cluster" in said
