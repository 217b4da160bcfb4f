"""Pod sandboxes: what a pod's containers share, made before the first one starts and removed after the last."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Protocol

from plugbay.errors import SandboxFailed
from plugbay.model.ids import PodUid
from plugbay.model.limits import CgroupLimits, pod_limits
from plugbay.model.pods import Pod, PodSpec
from plugbay.model.ports import ContainerPort
from plugbay.model.resolution import NO_DNS
from plugbay.model.security import Seccomp
from plugbay.values import dataclass


class Network(Enum):
    """The network that a pod is on."""

    POD = "pod"
    HOST = "host"


class HostNamespace(Enum):
    """A namespace of the host that a pod may have instead of its own, besides the network; named as in the OCI spec."""

    PID = "pid"
    IPC = "ipc"

    @property
    def field(self) -> str:
        """The field of a pod that asks for it."""
        return f"host{self.name}"


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """The sandbox that a pod asks for."""

    pod: Pod

    @property
    def network(self) -> Network:
        """The network that the pod wants; a runtime may have nothing but the host's."""
        return Network.HOST if self.pod.spec.host_network else Network.POD

    @property
    def host_namespaces(self) -> frozenset[HostNamespace]:
        """The namespaces that the pod's containers have of the host."""
        return frozenset(each for each in HostNamespace if self.pod.unused.get(("spec", each.field)))

    @property
    def shares_processes(self) -> bool:
        """Whether the pod's containers see each other's processes."""
        return bool(self.pod.unused.get(("spec", "shareProcessNamespace")))

    @property
    def ports(self) -> tuple[ContainerPort, ...]:
        """The ports of the regular containers, in order, as a kubelet passes them on."""
        return tuple(port for container in self.pod.spec.containers for port in container.ports)

    @property
    def privileged(self) -> bool:
        """Whether a container of the pod is privileged."""
        return any(container.security.privileged for container in self.pod.spec.all_containers)

    @property
    def limits(self) -> CgroupLimits:
        """The share of the machine that the pod's containers take together."""
        return pod_limits(self.pod.spec.all_containers)


class Sandboxes(Protocol):
    """The sandboxes of a runtime. They outlive the node's process, as containers do."""

    async def run(self, spec: SandboxSpec) -> tuple[str, ...]:
        """The pod's IP addresses, the first one its ``podIP``; none when it shares the host's.

        A sandbox that is there and in order is taken over as it is.

        Raises:
            SandboxFailed: it cannot be made, and nothing is left of it. The call may be repeated.
        """
        ...

    async def stop(self, pod: PodUid) -> None:
        """Give back what only a running pod needs, such as its network. The rest of its containers, such as their logs,
        can still be read. Nothing happens when the pod has no sandbox, or half of one.

        Raises:
            SandboxFailed: a part stays; the call has to be repeated.
        """
        ...

    async def remove(self, pod: PodUid) -> None:
        """Take a pod's sandbox away, stopped or not; nothing happens when there is none, or half a one.

        Raises:
            SandboxFailed: something stays; it has to be tried again.
        """
        ...

    async def pods(self) -> frozenset[PodUid]:
        """The pods that have a sandbox, half-made ones included."""
        ...


class HostSandboxes:
    """Sandboxes of a runtime whose containers share everything with the host, so that nothing has to be made."""

    async def run(self, spec: SandboxSpec) -> tuple[str, ...]:
        if spec.pod.spec.runtime_class:
            raise no_handler(spec.pod.spec.runtime_class)
        refuse_engine_only(spec)
        return ()

    async def stop(self, pod: PodUid) -> None:
        pass

    async def remove(self, pod: PodUid) -> None:
        pass

    async def pods(self) -> frozenset[PodUid]:
        return frozenset()


def refuse_engine_only(spec: SandboxSpec) -> None:
    """Refuse, for a runtime that confines nothing, what only containers can honour.

    Raises:
        SandboxFailed: the pod asks for what only containers can honour.
    """
    if (field := next(_engine_only(spec.pod.spec), None)) is not None:
        raise SandboxFailed(f"{field} is honoured in containers only: use --runtime oci or cri")


def no_handler(runtime_class: str) -> SandboxFailed:
    """The error for a pod of an unknown runtime class, in a kubelet's words."""
    return SandboxFailed(f'runtimeclass.node.k8s.io "{runtime_class}" not found')


def _engine_only(spec: PodSpec) -> Iterator[str]:
    """Yield the fields that ``spec`` sets and only containers can honour."""
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
