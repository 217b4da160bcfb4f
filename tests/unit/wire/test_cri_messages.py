"""Our CRI messages have the field numbers of runtime.v1; values come back from the wire as they were."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import pytest

from plugbay.model.cri import (
    ContainerPhase,
    EngineStatus,
    Image,
    LinuxResources,
    NamespaceMode,
    NamespaceModes,
    SandboxConfig,
    SandboxState,
)
from plugbay.model.ports import ContainerPort, Protocol
from plugbay.model.resolution import DnsConfig
from plugbay.wire.cri_messages import (
    engine_status_from_v1,
    image_from_v1,
    listed_from_v1,
    sandbox_status_from_v1,
    sandbox_to_v1,
    status_from_v1,
)
from plugbay.wire.generated import cri_v1_pb2 as v1
from plugbay.wire.pool import messages

# Written down from the API's description, independently of our .proto file.
NUMBERS: Final = """
DNSConfig servers=1 searches=2 options=3
PortMapping protocol=1 container_port=2 host_port=3 host_ip=4
NamespaceOption network=1 pid=2 ipc=3 target_id=4
SecurityProfile profile_type=1 localhost_ref=2
Capability add_capabilities=1 drop_capabilities=2 add_ambient_capabilities=3
ImageSpec image=1 annotations=2 user_specified_image=18 runtime_handler=19 image_ref=20
Mount container_path=1 host_path=2 readonly=3
Device container_path=1 host_path=2 permissions=3
CDIDevice name=1
LinuxContainerResources cpu_period=1 cpu_quota=2 cpu_shares=3 memory_limit_in_bytes=4 oom_score_adj=5 cpuset_cpus=6
PodSandboxMetadata name=1 uid=2 namespace=3 attempt=4
PodSandboxConfig metadata=1 hostname=2 log_directory=3 dns_config=4 port_mappings=5 labels=6 annotations=7 linux=8
LinuxPodSandboxConfig cgroup_parent=1 security_context=2 sysctls=3 overhead=4 resources=5
LinuxSandboxSecurityContext namespace_options=1 run_as_user=3 readonly_rootfs=4 supplemental_groups=5 privileged=6
LinuxSandboxSecurityContext run_as_group=8 seccomp=9
RunPodSandboxRequest config=1 runtime_handler=2
PodSandboxStatusResponse status=1 info=2
PodSandboxStatus id=1 metadata=2 state=3 created_at=4 network=5 labels=7 annotations=8 runtime_handler=9
PodSandboxNetworkStatus ip=1 additional_ips=2
PodSandboxFilter id=1 label_selector=3
PodSandbox id=1 metadata=2 state=3 created_at=4 labels=5 annotations=6 runtime_handler=7
ContainerMetadata name=1 attempt=2
ContainerConfig metadata=1 image=2 command=3 args=4 working_dir=5 envs=6 mounts=7 devices=8 labels=9 annotations=10
ContainerConfig log_path=11 stdin=12 stdin_once=13 tty=14 linux=15 CDI_devices=17
LinuxContainerConfig resources=1 security_context=2
LinuxContainerSecurityContext capabilities=1 privileged=2 namespace_options=3 run_as_user=5 run_as_username=6
LinuxContainerSecurityContext readonly_rootfs=7 supplemental_groups=8 no_new_privs=11 run_as_group=12
LinuxContainerSecurityContext masked_paths=13 readonly_paths=14 seccomp=15
CreateContainerRequest pod_sandbox_id=1 config=2 sandbox_config=3
StopContainerRequest container_id=1 timeout=2
ContainerFilter id=1 pod_sandbox_id=3 label_selector=4
Container id=1 pod_sandbox_id=2 metadata=3 image=4 image_ref=5 state=6 created_at=7 labels=8 annotations=9
ContainerStatusRequest container_id=1 verbose=2
ContainerStatusResponse status=1 info=2
ContainerStatus id=1 metadata=2 state=3 created_at=4 started_at=5 finished_at=6 exit_code=7 image=8 image_ref=9
ContainerStatus reason=10 message=11 labels=12 annotations=13 log_path=15
ExecSyncRequest container_id=1 cmd=2 timeout=3
ExecSyncResponse stdout=1 stderr=2 exit_code=3
VersionResponse version=1 runtime_name=2 runtime_version=3 runtime_api_version=4
StatusResponse status=1 info=2
RuntimeCondition type=1 status=2 reason=3 message=4
LinuxRuntimeConfiguration cgroup_driver=1
Image id=1 repo_tags=2 repo_digests=3 size=4 uid=5 username=6
AuthConfig username=1 password=2
PullImageRequest image=1 auth=2 sandbox_config=3
"""
ENUMS: Final = {
    "TCP": 0,
    "UDP": 1,
    "SCTP": 2,
    "POD": 0,
    "CONTAINER": 1,
    "NODE": 2,
    "SANDBOX_NOTREADY": 1,
    "CONTAINER_RUNNING": 1,
    "CONTAINER_EXITED": 2,
    "CONTAINER_UNKNOWN": 3,
    "SYSTEMD": 0,
    "CGROUPFS": 1,
}


@pytest.mark.parametrize("line", NUMBERS.strip().splitlines())
def test_fields_have_the_numbers_of_the_api(line: str) -> None:
    name, *fields = line.split()
    descriptor = messages("cri_v1.proto")[name].DESCRIPTOR
    assert descriptor.full_name == f"runtime.v1.{name}"
    for field in fields:
        field_name, _, number = field.partition("=")
        assert descriptor.fields_by_name[field_name].number == int(number)


def test_enums_have_the_values_of_the_api() -> None:
    made = messages("cri_v1.proto")
    assert {name: made[name] for name in ENUMS} == ENUMS


def test_a_sandbox_is_sent_with_all_that_was_said() -> None:
    config = SandboxConfig(
        "web",
        "u",
        "ns",
        3,
        "web",
        "/logs",
        "/pods/u",
        dns=DnsConfig(("10.0.0.1",)),
        ports=(ContainerPort(53, 5353, Protocol.UDP, "127.0.0.1"),),
        labels={"a": "b"},
        namespaces=NamespaceModes(network=NamespaceMode.NODE),
        run_as_group=5,
        resources=LinuxResources(cpu_period=100_000, cpu_quota=5000, cpu_shares=2, memory_limit=7),
    )
    sent = sandbox_to_v1(config)
    assert sent.linux.resources == v1.LinuxContainerResources(
        cpu_period=100_000, cpu_quota=5000, cpu_shares=2, memory_limit_in_bytes=7
    )
    assert sent.linux.overhead == v1.LinuxContainerResources()
    assert (sent.metadata.attempt, sent.linux.cgroup_parent, list(sent.dns_config.servers)) == (
        3,
        "/pods/u",
        ["10.0.0.1"],
    )
    (port,) = sent.port_mappings
    assert (port.protocol, port.container_port, port.host_port, port.host_ip) == (v1.UDP, 53, 5353, "127.0.0.1")
    options = sent.linux.security_context.namespace_options
    assert (options.network, options.pid, options.ipc) == (v1.NODE, v1.CONTAINER, v1.POD)
    assert not sent.linux.security_context.HasField("run_as_group"), "no engine takes a group without a user"


def test_the_addresses_of_a_pod_are_its_own() -> None:
    network = v1.PodSandboxNetworkStatus(ip="10.0.0.5", additional_ips=[v1.PodIP(ip="fd00::5")])
    status = v1.PodSandboxStatus(id="s", state=v1.SANDBOX_READY, network=network)
    assert sandbox_status_from_v1(status, mode=NamespaceMode.POD).ips == ("10.0.0.5", "fd00::5")
    assert sandbox_status_from_v1(status, mode=NamespaceMode.NODE).ips == ()
    assert sandbox_status_from_v1(status, mode=NamespaceMode.POD).state is SandboxState.READY


@pytest.mark.parametrize(
    ("info", "pid"),
    [
        ({"info": '{"pid": 17, "x": {}}'}, 17),
        ({"info": '{"pid": 0}'}, None),
        ({"info": '{"pid": "17"}'}, None),
        ({"info": "[]"}, None),
        ({"info": "no JSON"}, None),
        ({}, None),
    ],
)
def test_a_containers_state_is_read(info: dict[str, str], pid: int | None) -> None:
    moment = 1_700_000_000_123_456_789
    status = v1.ContainerStatus(
        id="c", state=v1.CONTAINER_EXITED, created_at=moment, started_at=moment, exit_code=137, reason="OOMKilled"
    )
    read = status_from_v1(status, info=info)
    assert (read.phase, read.exit_code, read.reason, read.pid) == (ContainerPhase.EXITED, 137, "OOMKilled", pid)
    assert read.started_at == datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)
    assert read.finished_at is None


def test_a_state_that_came_later_is_unknown() -> None:
    assert listed_from_v1(v1.Container(id="c", state=v1.CONTAINER_UNKNOWN)).phase is ContainerPhase.UNKNOWN


def test_what_an_engine_is_not_ready_for_is_told() -> None:
    conditions = [
        v1.RuntimeCondition(type="RuntimeReady", status=True),
        v1.RuntimeCondition(type="NetworkReady", reason="NoConfig"),
    ]
    answer = v1.StatusResponse(status=v1.RuntimeStatus(conditions=conditions), info={"config": "{}"})
    assert engine_status_from_v1(answer) == EngineStatus({"NetworkReady": "NoConfig"}, "{}")


def test_an_images_user_is_a_number_or_a_name() -> None:
    assert image_from_v1(v1.Image(id="i", uid=v1.Int64Value(value=0))) == Image("i", 0)
    assert image_from_v1(v1.Image(id="i", username="web")) == Image("i", None, "web")
