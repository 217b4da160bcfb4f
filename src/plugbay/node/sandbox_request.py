"""What a pod asks of its sandbox: pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugbay.model.limits import pod_limits
from plugbay.model.pods import Pod, PodSpec
from plugbay.model.resolution import NO_DNS
from plugbay.model.security import Seccomp
from plugbay.node.runtimes.sandboxes import Network, SandboxSpec

_SHARING: Final = ("hostPID", "hostIPC", "shareProcessNamespace")


def sandbox_spec(pod: Pod) -> SandboxSpec:
    """The sandbox of ``pod``; ports are those of its regular containers, as a kubelet passes them on."""
    return SandboxSpec(
        pod.uid,
        pod.namespace,
        pod.name,
        network=Network.HOST if pod.spec.host_network else Network.POD,
        annotations=pod.annotations,
        ports=tuple(port for container in pod.spec.containers for port in container.ports),
        runtime_class=pod.spec.runtime_class,
        shared=tuple(name for name in _SHARING if pod.unused.get(("spec", name))),
        labels=pod.labels,
        hostname=pod.spec.hostname,
        security=pod.spec.security,
        privileged=any(container.security.privileged for container in pod.spec.all_containers),
        limits=pod_limits(pod.spec.all_containers),
        dns_policy=pod.spec.dns_policy,
        dns=pod.spec.dns,
        host_aliases=pod.spec.host_aliases,
        sysctls=pod.spec.sysctls,
        engine_only=tuple(_engine_only(pod.spec)),
    )


def _engine_only(spec: PodSpec) -> Iterator[str]:
    if spec.dns != NO_DNS:
        yield "spec.dnsConfig"
    if spec.host_aliases:
        yield "spec.hostAliases"
    if spec.sysctls:
        yield "spec.securityContext.sysctls"
    contexts = {"spec": spec.security} | {
        f"spec.{name}[{index}]": container.security
        for name, containers in (("initContainers", spec.init_containers), ("containers", spec.containers))
        for index, container in enumerate(containers)
    }
    for where, security in contexts.items():
        if security.seccomp is Seccomp.RUNTIME_DEFAULT:
            yield f"{where}.securityContext.seccompProfile"
