"""DNS, host aliases, sysctls, seccomp and groups of a pod: read, refused, written back, and kept from who cannot."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from plugbay.errors import InvalidManifest, SandboxFailed
from plugbay.manifest import pod_from_v1, pod_to_v1
from plugbay.model.actions import ExecAction, SleepAction
from plugbay.model.ids import PodUid
from plugbay.model.pods import EmptyDir, Pod, PodSpec, Volume
from plugbay.model.ports import ContainerPort
from plugbay.model.quantity import Quantity
from plugbay.model.resolution import DnsConfig, DnsPolicy, HostAlias
from plugbay.model.security import Seccomp, Security, all_groups, effective_security
from plugbay.model.termination import MessagePolicy
from plugbay.pods.running.sub_paths import SubPathMeans
from plugbay.pods.running.volumes import Volumes
from plugbay.runtimes.sandboxes import HostSandboxes, SandboxSpec
from plugbay.testing.fake_node import FakeNode
from plugbay.testing.pod_values import container, runs
from plugbay.testing.pod_values import pod as pod_of

DNS: dict[str, Any] = {
    "nameservers": ["10.0.0.1"],
    "searches": ["a.example", "b.example."],
    "options": [{"name": "ndots", "value": "5"}, {"name": "rotate"}],
}


def v1(*, security: object = None, own: dict[str, Any] | None = None, **spec: object) -> dict[str, Any]:
    context = {"securityContext": security} if security else {}
    only = {"name": "c", **(own or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [only], **context, **spec},
    }


def test_they_are_read_and_written_back() -> None:
    pod = pod_from_v1(
        v1(
            security={
                "fsGroup": 7,
                "supplementalGroups": [8],
                "seccompProfile": {"type": "RuntimeDefault"},
                "sysctls": [{"name": "net/ipv4/tcp_syncookies", "value": "0"}],
            },
            own={
                "terminationMessagePath": "/end",
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "securityContext": {"seccompProfile": {"type": "Unconfined"}},
            },
            dnsPolicy="None",
            dnsConfig=DNS,
            hostAliases=[{"ip": "10.0.0.9", "hostnames": ["x", "y.example"]}, {"ip": "fd00::9"}],
        )
    )
    spec = pod.spec
    assert spec.dns_policy is DnsPolicy.NONE
    assert spec.dns == DnsConfig(("10.0.0.1",), ("a.example", "b.example."), ("ndots:5", "rotate"))
    assert spec.host_aliases == (HostAlias("10.0.0.9", ("x", "y.example")), HostAlias("fd00::9", ()))
    assert spec.sysctls == {"net.ipv4.tcp_syncookies": "0"}
    assert (spec.security.fs_group, spec.security.seccomp) == (7, Seccomp.RUNTIME_DEFAULT)
    only = spec.containers[0]
    assert (only.message_path, only.message_policy) == ("/end", MessagePolicy.FALLBACK_TO_LOGS)
    security = effective_security(pod=spec.security, container=only.security)
    assert (security.supplemental_groups, security.seccomp) == ((7, 8), Seccomp.UNCONFINED)
    assert pod_from_v1(pod_to_v1(pod)) == pod


@pytest.mark.parametrize(
    ("pod", "problem"),
    [
        (v1(dnsPolicy="None"), r"dnsConfig\.nameservers: Required value: must provide at least one"),
        (v1(dnsConfig={"nameservers": ["ns"]}), r'nameservers\[0\]: Invalid value: "ns": must be a valid IP'),
        (v1(dnsConfig={"nameservers": ["10.0.0.1"] * 4}), "must not have more than 3 nameservers"),
        (v1(dnsConfig={"searches": ["a.b"] * 33}), "must not have more than 32 search paths"),
        (v1(dnsConfig={"searches": ["x" * 100] * 30}), "must not have more than 2048 characters"),
        (v1(dnsConfig={"searches": ["a b"]}), r'searches\[0\]: Invalid value: "a b"'),
        (v1(hostAliases=[{"ip": "here"}]), r'hostAliases\[0\]\.ip: Invalid value: "here"'),
        (v1(hostAliases=[{"ip": "::1", "hostnames": ["A_b"]}]), r'hostnames\[0\]: Invalid value: "A_b"'),
        (v1(security={"sysctls": [{"name": "kernel.panic"}]}), 'forbidden sysctl: "kernel.panic" not allowlisted'),
        (v1(security={"sysctls": [{"name": "net.ipv4.tcp_rmem"}] * 2}), 'Duplicate value: "net.ipv4.tcp_rmem"'),
        (
            v1(security={"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}, hostNetwork=True),
            "may not be specified when 'hostNetwork' is true",
        ),
        (v1(security={"fsGroup": -1}), "fsGroup: Invalid value"),
        (v1(security={"seccompProfile": {"type": "Localhost"}}), 'Unsupported value: "Localhost"'),
    ],
)
def test_what_cannot_be_is_refused_where_it_stands(pod: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidManifest, match=problem):
        pod_from_v1(pod)


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        (v1(dnsConfig=DNS), "spec.dnsConfig"),
        (v1(hostAliases=[{"ip": "::1"}]), "spec.hostAliases"),
        (v1(security={"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}), "spec.securityContext.sysctls"),
        (v1(security={"seccompProfile": {"type": "RuntimeDefault"}}), "spec.securityContext.seccompProfile"),
        (
            v1(own={"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}),
            "spec.containers[0].securityContext.seccompProfile",
        ),
    ],
)
async def test_a_runtime_without_an_engine_refuses_what_it_cannot_honour(pod: dict[str, Any], field: str) -> None:
    with pytest.raises(SandboxFailed) as refused:
        await HostSandboxes().run(SandboxSpec(pod_from_v1(pod)))
    assert str(refused.value) == f"{field} is honoured in containers only: use --runtime oci or cri"


async def test_what_every_runtime_does_is_not_refused() -> None:
    pod = v1(dnsPolicy="ClusterFirst", security={"seccompProfile": {"type": "Unconfined"}})
    assert await HostSandboxes().run(SandboxSpec(pod_from_v1(pod))) == ()


def test_plain_processes_have_no_groups_of_their_own() -> None:
    assert list(Security(fs_group=7, supplemental_groups=(8,)).restrictions()) == ["fsGroup"]
    assert all_groups(Security(fs_group=7, supplemental_groups=(8, 7))) == (7, 8)


def test_the_group_of_the_pods_files_owns_what_is_made_in_them(tmp_path: Path) -> None:
    group = 4711 if os.geteuid() == 0 else os.getgid()
    spec = PodSpec((container("c"),), volumes=(Volume("v", EmptyDir()),), security=Security(fs_group=group))
    for _ in range(2):
        path = Volumes(tmp_path, SubPathMeans.OPEN).prepare(Pod("p", spec, uid=PodUid("u")))["v"]
    assert (path.stat().st_gid, path.stat().st_mode & 0o7777) == (group, 0o2777)


def test_a_sandbox_is_asked_for_with_the_limits_of_all_containers() -> None:
    limits = {"memory": Quantity.parse("3")}
    pod = pod_of(container("a"), container("b", limits=limits), container("c", limits=limits))
    assert SandboxSpec(pod).limits.memory_bytes == 6


async def test_a_container_is_started_with_its_ports_and_hook(tmp_path: Path) -> None:
    node, port = FakeNode(tmp_path), ContainerPort(80, 8080)
    hooked = container("a", ports=(port,), pre_stop=ExecAction(("sh", "-c", "x && y")))
    async with node.engine() as engine:
        await engine.create(pod_of(hooked, container("b", pre_stop=SleepAction(0)), container("c")))
        await node.until(runs(0))
    with_command, sleeping, plain = sorted(node.runtime.specs.values(), key=lambda spec: spec.container.name)
    assert with_command.container.ports == (port,)
    assert with_command.container.pre_stop == ExecAction(("sh", "-c", "x && y"))
    assert (sleeping.container.pre_stop, plain.container.pre_stop) == (SleepAction(0), None)
