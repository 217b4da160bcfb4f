"""What a pod asks of its network, and what plugins are told of it besides, for CNI: pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from plugbay.cni.capabilities import CGROUP_PATH, DNS, POD_ANNOTATIONS, bandwidth, port_mappings
from plugbay.cni.documents import Json
from plugbay.model.bandwidth import bandwidth_of
from plugbay.model.ports import ContainerPort
from plugbay.model.resolution import DnsConfig


def capabilities_of(annotations: Mapping[str, str], ports: Iterable[ContainerPort]) -> dict[str, Json]:
    """The capability arguments that a pod's annotations and host ports come to.

    Args:
        ports: of the regular containers, in order; those without a host port do not count.

    Raises:
        InvalidBandwidth: an annotation is of no use; the pod should be refused before a sandbox is made, as some
            engines cannot even remove one that they made for it.
    """
    return port_mappings(ports) | bandwidth(bandwidth_of(annotations))


def told_capabilities(annotations: Mapping[str, str], *, dns: DnsConfig | None, cgroup: str) -> dict[str, Json]:
    """What plugins are told if they declare it, though no pod needs them to: the same as containerd tells them.

    Args:
        dns: what the pod's ``resolv.conf`` says, where that is known.
        cgroup: the path of the pod's, below every hierarchy.
    """
    told: dict[str, Json] = {POD_ANNOTATIONS: dict(annotations), CGROUP_PATH: cgroup}
    if dns is not None:
        told[DNS] = {"servers": list(dns.servers), "searches": list(dns.searches), "options": list(dns.options)}
    return told
