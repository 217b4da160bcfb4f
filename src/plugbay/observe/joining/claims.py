"""DeviceClaims: which container holds which device, by each source. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from plugbay.model.podresources import held_devices
from plugbay.observe.evidence import KnownPod, NodeEvidence
from plugbay.printers import v1

DeviceKey: TypeAlias = tuple[str, str]
"""Resource and device ID."""
PodKey: TypeAlias = tuple[str, str]
"""Namespace and name."""


class DeviceClaim(NamedTuple):
    """A container that a source says to hold a device; pod or UID may be missing, and is empty then."""

    container: str
    pod: PodKey | tuple[()]
    uid: str = ""


DeviceClaims: TypeAlias = dict[DeviceKey, list[DeviceClaim]]


def claims_of_checkpoint(evidence: NodeEvidence) -> DeviceClaims:
    claims: DeviceClaims = {}
    for entry in evidence.checkpoint.entries or ():
        claim = DeviceClaim(entry.container, _pod_of(evidence.known_pods, entry.uid), entry.uid)
        for device in dict.fromkeys(device for ids in entry.devices.values() for device in ids):
            listed = claims.setdefault((entry.resource, device), [])
            if claim not in listed:
                listed.append(claim)
    return claims


def claims_of_pods(evidence: NodeEvidence) -> DeviceClaims:
    claims: DeviceClaims = {}
    for held in held_devices(evidence.pods or ()):
        claim = DeviceClaim(held.container, (held.namespace, held.pod))
        claims.setdefault((held.resource, held.device_id), []).append(claim)
    return claims


def claims_of_node(evidence: NodeEvidence) -> DeviceClaims:
    claims: DeviceClaims = {}
    for resource in v1.objects(evidence.node, "resources"):
        name = v1.text(resource, "resourceName")
        for device in v1.objects(resource, "devices"):
            if holder := v1.mapping(device, "holder"):
                pod = (v1.text(holder, "namespace"), v1.text(holder, "pod")) if v1.text(holder, "pod") else ()
                claim = DeviceClaim(v1.text(holder, "container"), pod, v1.text(holder, "uid"))
                claims[name, v1.text(device, "id")] = [claim]
    return claims


def learned_names(checkpoint: DeviceClaims, live: DeviceClaims) -> dict[str, PodKey]:
    """Names of pods by UID, from devices that both sources give to a container of the same name.

    A UID that would get two names has none.
    """
    found: dict[str, set[PodKey]] = {}
    for key, claims in checkpoint.items():
        for claim in claims:
            matches = {other.pod for other in live.get(key, ()) if other.pod and other.container == claim.container}
            if not claim.pod and len(matches) == 1:
                found.setdefault(claim.uid, set()).update(matches)
    return {uid: next(iter(names)) for uid, names in found.items() if len(names) == 1}


def containers_of(evidence: NodeEvidence) -> Mapping[PodKey, frozenset[str]]:
    """The containers of each pod that PodResources lists; init containers are not among them."""
    return {
        (pod.namespace, pod.name): frozenset(container.name for container in pod.containers)
        for pod in evidence.pods or ()
    }


def claimed_numa(evidence: NodeEvidence) -> Iterator[tuple[DeviceKey, int]]:
    """The NUMA nodes of held devices by the checkpoint."""
    for entry in evidence.checkpoint.entries or ():
        for node, devices in entry.devices.items():
            for device in devices if node >= 0 else ():
                yield (entry.resource, device), node


def _pod_of(known: Mapping[str, KnownPod], uid: str) -> PodKey | tuple[()]:
    pod = known.get(uid)
    return (pod.namespace, pod.name) if pod is not None and pod.name else ()
