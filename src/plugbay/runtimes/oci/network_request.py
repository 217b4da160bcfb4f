"""The requests of a pod to its network, and further facts for CNI plugins. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from plugbay.cni.capabilities import CGROUP_PATH, DNS, POD_ANNOTATIONS, bandwidth, port_mappings
from plugbay.documents import JsonObject
from plugbay.model.bandwidth import bandwidth_of
from plugbay.model.ports import ContainerPort
from plugbay.model.resolution import DnsConfig


def capabilities_of(annotations: Mapping[str, str], ports: Iterable[ContainerPort]) -> JsonObject:
    """The capability arguments that a pod's annotations and host ports come to.

    Args:
        ports: of the regular containers, in order; those without a host port do not count.

    Raises:
        InvalidBandwidth: an annotation is of no use; the pod should be refused before a sandbox is made, as some
            engines cannot even remove one that they made for it.
    """
    return port_mappings(ports) | bandwidth(bandwidth_of(annotations))


def told_capabilities(annotations: Mapping[str, str], *, dns: DnsConfig | None, cgroup: str) -> JsonObject:
    """The facts for plugins that declare them, though no pod asks for them: the same as with containerd.

    Args:
        dns: the content of the pod's ``resolv.conf``, where that is known.
        cgroup: the path of the pod's cgroup, below every hierarchy.
    """
    told: JsonObject = {POD_ANNOTATIONS: dict(annotations), CGROUP_PATH: cgroup}
    if dns is not None:
        told[DNS] = {"servers": list(dns.servers), "searches": list(dns.searches), "options": list(dns.options)}
    return told
