"""What a runtime can tell plugins about one container, under the names that the CNI conventions give it: pure.

A plugin gets of this what its ``capabilities`` switch on; see `chain.plugin_input`.

Source: CNI ``CONVENTIONS.md`` of specification 1.1.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from plugbay.cni.config import NetworkConfig
from plugbay.cni.documents import Json
from plugbay.model.bandwidth import Bandwidth
from plugbay.model.ports import ContainerPort

PORT_MAPPINGS: Final = "portMappings"
BANDWIDTH: Final = "bandwidth"
DNS: Final = "dns"
CGROUP_PATH: Final = "cgroupPath"
POD_ANNOTATIONS: Final = "io.kubernetes.cri.pod-annotations"
WELL_KNOWN: Final = frozenset(
    {
        PORT_MAPPINGS,
        BANDWIDTH,
        DNS,
        CGROUP_PATH,
        POD_ANNOTATIONS,
        "ipRanges",
        "ips",
        "mac",
        "infinibandGUID",
        "deviceID",
        "aliases",
    }
)

_BURST: Final = 2**32 - 1
"""In bits; what containerd sends. The plugin takes no more, and no annotation tells it."""


def port_mappings(ports: Iterable[ContainerPort]) -> dict[str, Json]:
    """The ports that the host forwards, in order and each once; empty when there are none."""
    entries: list[Json] = []
    for port in ports:
        entry: dict[str, Json] = {
            "hostPort": port.host_port,
            "containerPort": port.container_port,
            "protocol": port.protocol.value.lower(),
        }
        if port.host_ip:
            entry["hostIP"] = port.host_ip
        if port.host_port and entry not in entries:
            entries.append(entry)
    return {PORT_MAPPINGS: entries} if entries else {}


def bandwidth(limits: Bandwidth | None) -> dict[str, Json]:
    """How fast the network may be; empty when it is not limited."""
    if limits is None:
        return {}
    return {
        BANDWIDTH: {
            "ingressRate": limits.ingress,
            "ingressBurst": _BURST if limits.ingress else 0,
            "egressRate": limits.egress,
            "egressBurst": _BURST if limits.egress else 0,
        }
    }


def unserved(network: NetworkConfig, capabilities: Mapping[str, Json]) -> list[str]:
    """What no plugin of ``network`` would be told, sorted: engines leave it out without a word."""
    return sorted(capabilities.keys() - network.capabilities)
