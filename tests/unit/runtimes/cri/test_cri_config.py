"""Sandboxes and containers are described to an engine as a kubelet does it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plugbay.cdi.convert import Spelled
from plugbay.model.actions import ExecAction, Hook, SleepAction
from plugbay.model.cri import CgroupDriver, LinuxResources, NamespaceMode, SandboxConfig
from plugbay.model.edits import ContainerEdits, DeviceNode, Mount
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.limits import CgroupLimits
from plugbay.model.ports import ContainerPort, Protocol
from plugbay.model.qos import QosClass
from plugbay.model.quantity import Quantity
from plugbay.model.security import Security
from plugbay.runtimes.cri.config import (
    Conventions,
    cgroup_parent,
    container_config,
    oom_score_adj,
    sandbox_config,
)
from plugbay.runtimes.sandboxes import HostNamespace, Network, SandboxSpec
from tests.container_specs import changed, container_spec, sandbox_spec, wanting

UID = PodUid("0c1-2")
CONVENTIONS = Conventions("n-1", "/srv/logs", "/srv/pods", "plugbay-ab12", CgroupDriver.CGROUPFS, 1000)
SANDBOX = sandbox_spec(
    UID,
    "ns",
    "web",
    annotations={"a": "b"},
    ports=(ContainerPort(80, 8080),),
    labels={"app": "web", "io.kubernetes.pod.name": "forged"},
)
CONTAINER = container_spec(
    uid=UID,
    namespace="ns",
    name=ContainerName("main"),
    attempt=2,
    image="img:1",
    command=("run",),
    args=("-v", "x"),
    env={"A": "pod"},
    mounts=(Mount("/srv", container_path="/data"),),
    edits=ContainerEdits(
        env={"A": "device", "B": "2"},
        mounts=(Mount("/usr/lib/gpu", container_path="/lib/gpu", read_only=True),),
        device_nodes=(DeviceNode("/dev/gpu0", container_path="/dev/gpu"),),
        annotations={"io.kubernetes.container.restartCount": "forged", "x": "y"},
        cdi_devices=("v.com/c=d",),
    ),
)


def config(spec: SandboxSpec = SANDBOX) -> SandboxConfig:
    return sandbox_config(spec, CONVENTIONS, attempt=1)


def test_paths_of_devices_reach_the_engine_as_they_are() -> None:
    """What an empty or relative path means is for the engine to say."""
    mounts = Mount("", container_path=""), Mount("rel", container_path="data")
    nodes = DeviceNode("", container_path="/dev/x"), DeviceNode("null", container_path="")
    spec = changed(CONTAINER, edits=ContainerEdits(mounts=mounts, device_nodes=nodes), mounts=())
    made = container_config(spec, CONVENTIONS, image="i", sandbox=config())
    assert (made.mounts, made.devices) == (mounts, nodes)


def test_a_sandbox_carries_the_pods_own_labels_but_not_forged_ones() -> None:
    made = config()
    assert made.labels == {
        "app": "web",
        "io.kubernetes.pod.name": "web",
        "io.kubernetes.pod.namespace": "ns",
        "io.kubernetes.pod.uid": UID,
        "io.plugbay.node": "n-1",
    }
    assert (made.name, made.uid, made.namespace, made.attempt) == ("web", UID, "ns", 1)
    assert made.annotations == {"a": "b"}
    assert made.ports == (ContainerPort(80, 8080),)
    assert made.log_directory == "/srv/logs/ns_web_0c1-2"
    assert made.cgroup_parent == "/plugbay-ab12-0c1-2"


@pytest.mark.parametrize(
    ("sharing", "network", "modes"),
    [
        pytest.param({}, Network.POD, ("pod", "container", "pod"), id="own"),
        pytest.param({}, Network.HOST, ("node", "container", "pod"), id="host-network"),
        pytest.param({"shares_processes": True}, Network.POD, ("pod", "pod", "pod"), id="shared-processes"),
        pytest.param(
            {"host_namespaces": frozenset(HostNamespace)}, Network.POD, ("pod", "node", "node"), id="host-processes"
        ),
    ],
)
def test_namespaces_are_those_the_pod_asks_for(
    sharing: dict[str, Any], network: Network, modes: tuple[str, ...]
) -> None:
    made = config(wanting(SANDBOX, **sharing, network=network))
    found = made.namespaces.network, made.namespaces.pid, made.namespaces.ipc
    assert found == tuple(map(NamespaceMode, modes))
    assert container_config(CONTAINER, CONVENTIONS, image="i", sandbox=made).security.namespaces == made.namespaces


def test_a_pod_on_the_hosts_network_has_the_hosts_name() -> None:
    assert config().hostname == "web"
    assert config(wanting(SANDBOX, hostname="front")).hostname == "front"
    assert config(wanting(SANDBOX, network=Network.HOST)).hostname == ""


def test_systemd_is_given_a_slice_of_one_level_below_its_root() -> None:
    with_systemd = replace(CONVENTIONS, cgroup_driver=CgroupDriver.SYSTEMD)
    assert cgroup_parent(with_systemd, UID) == "plugbay_ab12-pod0c1_2.slice"


def test_a_container_gets_its_devices_first_and_the_pod_wins() -> None:
    made = container_config(CONTAINER, CONVENTIONS, image="sha256:1", sandbox=config())
    assert (made.image, made.asked_image) == ("sha256:1", "img:1")
    assert (made.command, made.args) == (("run",), ("-v", "x"))
    assert made.env == (("A", "device"), ("B", "2"), ("A", "pod"))
    assert [mount.container_path for mount in made.mounts] == ["/lib/gpu", "/data"]
    assert made.devices == (DeviceNode("/dev/gpu0", container_path="/dev/gpu"),)
    assert made.cdi_devices == ("v.com/c=d",)
    assert made.log_path == "main/2.log"
    assert made.annotations["x"] == "y"
    assert made.annotations["io.kubernetes.container.restartCount"] == "2"
    assert made.labels == {
        "io.kubernetes.container.name": "main",
        "io.kubernetes.pod.name": "web",
        "io.kubernetes.pod.namespace": "ns",
        "io.kubernetes.pod.uid": UID,
        "io.plugbay.node": "n-1",
    }


@pytest.mark.parametrize(
    ("hook", "written"),
    [
        (SleepAction(0), '{"sleep":{"seconds":0}}'),
        (ExecAction(("sh", "-c", "x && y")), r'{"exec":{"command":["sh","-c","x \u0026\u0026 y"]}}'),
    ],
)
def test_what_a_kubelet_writes_on_containers_is_in_gos_spelling(hook: Hook, written: str) -> None:
    made = container_config(CONTAINER, CONVENTIONS, image="i", sandbox=config()).annotations
    assert made["io.kubernetes.pod.terminationGracePeriod"] == "30"
    assert not {"io.kubernetes.container.ports", "io.kubernetes.container.preStopHandler"} & made.keys()
    ports = (ContainerPort(53, 5353, Protocol.UDP, "127.0.0.1", "dns"), ContainerPort(80))
    full = changed(CONTAINER, ports=ports, pre_stop=hook)
    made = container_config(full, CONVENTIONS, image="i", sandbox=config()).annotations
    assert made["io.kubernetes.container.ports"] == (
        '[{"name":"dns","hostPort":5353,"containerPort":53,"protocol":"UDP","hostIP":"127.0.0.1"},'
        '{"containerPort":80,"protocol":"TCP"}]'
    )
    assert made["io.kubernetes.container.preStopHandler"] == written


def test_a_sandbox_is_told_what_its_containers_take_together() -> None:
    made = config(wanting(SANDBOX, limits={"cpu": Quantity.parse("500m"), "memory": Quantity.parse("1Mi")})).resources
    assert made == LinuxResources(cpu_period=100_000, cpu_quota=50_000, cpu_shares=512, memory_limit=2**20)


def test_a_pod_has_its_own_hosts_unless_it_mounts_some() -> None:
    made = container_config(CONTAINER, CONVENTIONS, image="i", sandbox=config(), hosts="/srv/pods/u/etc-hosts")
    assert made.mounts[-1] == Mount("/srv/pods/u/etc-hosts", container_path="/etc/hosts")
    own = changed(CONTAINER, mounts=(Mount("/mine", container_path="/etc/hosts"),))
    made = container_config(own, CONVENTIONS, image="i", sandbox=config(), hosts="/srv/pods/u/etc-hosts")
    assert [each.host_path for each in made.mounts if each.container_path == "/etc/hosts"] == ["/mine"]


def test_what_cdi_devices_come_to_wins_over_everything() -> None:
    edits = ContainerEdits(
        env={"A": "cdi"},
        mounts=(Mount("/cdi", container_path="/data"),),
        device_nodes=(DeviceNode("/dev/gpu9", container_path="/dev/gpu"),),
    )
    container = changed(CONTAINER, security=Security(supplemental_groups=(5, 6)))
    made = container_config(container, CONVENTIONS, image="i", sandbox=config(), cdi=Spelled(edits, (777, 5)))
    assert made.security.supplemental_groups == (5, 6, 777)
    assert made.env[-1] == ("A", "cdi")
    assert made.mounts == (
        Mount("/usr/lib/gpu", container_path="/lib/gpu", read_only=True),
        Mount("/cdi", container_path="/data"),
    )
    assert made.devices == (DeviceNode("/dev/gpu9", container_path="/dev/gpu"),)


def test_limits_and_rights_are_passed_on() -> None:
    security = Security(
        run_as_user=7,
        privileged=True,
        added_capabilities=("NET_ADMIN",),
        read_only_root=True,
        allow_privilege_escalation=False,
    )
    spec = changed(CONTAINER, security=security, limits=CgroupLimits(512, 50_000, 2**20))
    made = container_config(spec, CONVENTIONS, image="i", sandbox=config())
    found = made.resources
    assert (found.cpu_shares, found.cpu_quota, found.cpu_period, found.memory_limit) == (512, 50_000, 100_000, 2**20)
    assert (made.security.run_as_user, made.security.privileged) == (7, True)
    assert made.security.added_capabilities == ("NET_ADMIN",)
    assert (made.security.read_only_root, made.security.no_new_privileges) == (True, True)
    assert "/proc/kcore" in made.security.masked_paths
    assert "/proc/sys" in made.security.read_only_paths


@pytest.mark.parametrize(
    ("qos", "request_bytes", "score"),
    [
        (QosClass.GUARANTEED, 1000, -997),
        (QosClass.BEST_EFFORT, 0, 1000),
        (QosClass.BURSTABLE, 0, 999),
        (QosClass.BURSTABLE, 250, 750),
        (QosClass.BURSTABLE, 1000, 3),
        (QosClass.BURSTABLE, 5000, 3),
    ],
)
def test_who_asks_for_little_memory_is_killed_first(qos: QosClass, request_bytes: int, score: int) -> None:
    assert oom_score_adj(qos, request_bytes, 1000) == score
