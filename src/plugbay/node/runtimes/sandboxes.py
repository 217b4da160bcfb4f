"""Pod sandboxes: what a pod's containers share, made before the first one starts and removed after the last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from plugbay.errors import SandboxFailed
from plugbay.model.ids import PodUid
from plugbay.model.limits import DEFAULT_LIMITS, CgroupLimits
from plugbay.model.ports import ContainerPort
from plugbay.model.resolution import NO_DNS, DnsConfig, DnsPolicy, HostAlias
from plugbay.model.security import DEFAULT_SECURITY, Security


class Network(Enum):
    """Whose network a pod is on."""

    POD = "pod"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """One pod's sandbox.

    Attributes:
        network: as the pod wants it; a runtime may have nothing but the host's.
        ports: of the regular containers, in order.
        runtime_class: the pod's ``runtimeClassName``; empty is the default.
        shared: fields of the pod by which its containers share namespaces with each other or with the host.
        labels: the pod's.
        hostname: empty is the pod's name.
        security: the pod's own context.
        privileged: whether a container of it is.
        limits: what its containers take of the machine, all together.
        dns_policy, dns, host_aliases, sysctls: see `plugbay.model.pods.PodSpec`.
        engine_only: fields the pod sets that only containers can honour; a runtime without them refuses the pod.
    """

    pod_uid: PodUid
    namespace: str
    pod: str
    network: Network = Network.POD
    annotations: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[ContainerPort, ...] = ()
    runtime_class: str = ""
    shared: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    hostname: str = ""
    security: Security = DEFAULT_SECURITY
    privileged: bool = False
    limits: CgroupLimits = DEFAULT_LIMITS
    dns_policy: DnsPolicy | None = None
    dns: DnsConfig = NO_DNS
    host_aliases: tuple[HostAlias, ...] = ()
    sysctls: Mapping[str, str] = field(default_factory=dict)
    engine_only: tuple[str, ...] = ()


class Sandboxes(Protocol):
    """The sandboxes of a runtime. They outlive the node's process, as containers do."""

    async def run(self, spec: SandboxSpec) -> tuple[str, ...]:
        """The pod's IP addresses, the first one its ``podIP``; none when it shares the host's.

        A sandbox that is there and in order is taken over as it is.

        Raises:
            SandboxFailed: it cannot be made; nothing is left of it. It may be tried again.
        """
        ...

    async def stop(self, pod: PodUid) -> None:
        """Give back what only a pod that runs needs, such as its network. What is left of its containers, such as
        their logs, can still be looked at. Nothing happens when there is no sandbox, or half a one.

        Raises:
            SandboxFailed: something stays; it has to be tried again.
        """
        ...

    async def remove(self, pod: PodUid) -> None:
        """Take a pod's sandbox away, stopped or not; nothing happens when there is none, or half a one.

        Raises:
            SandboxFailed: something stays; it has to be tried again.
        """
        ...

    async def pods(self) -> frozenset[PodUid]:
        """Whose sandboxes there are, half-made ones included."""
        ...


class HostSandboxes:
    """For a runtime whose containers share everything with the host: there is nothing to make."""

    async def run(self, spec: SandboxSpec) -> tuple[str, ...]:
        if spec.runtime_class:
            raise no_handler(spec.runtime_class)
        refuse_engine_only(spec)
        return ()

    async def stop(self, pod: PodUid) -> None:
        pass

    async def remove(self, pod: PodUid) -> None:
        pass

    async def pods(self) -> frozenset[PodUid]:
        return frozenset()


def refuse_engine_only(spec: SandboxSpec) -> None:
    """For a runtime that confines nothing.

    Raises:
        SandboxFailed: the pod asks for what only containers can honour.
    """
    if spec.engine_only:
        raise SandboxFailed(f"{spec.engine_only[0]} is honoured in containers only: use --runtime oci or cri")


def no_handler(runtime_class: str) -> SandboxFailed:
    """Why a pod of an unknown runtime class gets no sandbox, as a kubelet says it."""
    return SandboxFailed(f'runtimeclass.node.k8s.io "{runtime_class}" not found')
