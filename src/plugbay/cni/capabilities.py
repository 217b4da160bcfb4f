"""Capability arguments about one container, under the names of the CNI conventions. Pure.

A plugin gets the arguments that its ``capabilities`` switch on; see `chain.plugin_input`.

Source: CNI ``CONVENTIONS.md`` of specification 1.1.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from plugbay.cni.config import NetworkConfig
from plugbay.documents import JsonObject, JsonValue
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
"""The burst in bits that containerd sends. The plugin takes no more, and no annotation sets it."""


def port_mappings(ports: Iterable[ContainerPort]) -> JsonObject:
    """The ports that the host forwards, in order and each once; empty if there are none."""
    entries: list[JsonValue] = []
    for port in ports:
        entry: JsonObject = {
            "hostPort": port.host_port,
            "containerPort": port.container_port,
            "protocol": port.protocol.value.lower(),
        }
        if port.host_ip:
            entry["hostIP"] = port.host_ip
        if port.host_port and entry not in entries:
            entries.append(entry)
    return {PORT_MAPPINGS: entries} if entries else {}


def bandwidth(limits: Bandwidth | None) -> JsonObject:
    """The limits of the bandwidth; empty if there are none."""
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


def unserved(network: NetworkConfig, capabilities: Mapping[str, JsonValue]) -> list[str]:
    """The capabilities that no plugin of ``network`` takes, sorted: engines leave them out without a word."""
    return sorted(capabilities.keys() - network.capabilities)
