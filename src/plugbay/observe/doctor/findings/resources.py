"""Checks of resources and their devices. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from plugbay.observe.doctor.evidence.values import CheckpointState, EvidenceSource, Examined
from plugbay.observe.doctor.finding import Check, FindingSeverity, Seen

_MOST_NAMED: Final = 8
_OFTEN: Final = 10
_LONG_RELEASE_S: Final = 60
_REGISTERED: Final = re.compile(r"PluginRegistered|Registered")
_OF: Final = re.compile(r"resource (?P<name>[^\s]+)")


def stuck_at_zero(evidence: Examined) -> Iterator[Seen]:
    told = _told(evidence)
    for each in evidence.resources:
        if each.capacity > 0 and each.allocatable == 0 and not _is_all_unhealthy(evidence, each.name):
            since = f", since {each.since}" if each.since else ""
            plugin = f"; its plugin is {each.plugin}{since}" if each.plugin else ""
            yield Seen(
                f"{each.name} has {each.capacity} devices, and none can be given to pods",
                (f"{each.source}: capacity {each.capacity}, allocatable 0{plugin}",),
                resources=(each.name,),
            )
    allocatable = evidence.pod_resources.allocatable
    if allocatable is None or evidence.checkpoint.state is not CheckpointState.VALID:
        return
    known = dict(evidence.checkpoint.registered)
    for entry in evidence.checkpoint.entries:
        known.setdefault(entry.resource, ())
    for name, devices in sorted(known.items()):
        held = {each for entry in evidence.checkpoint.entries if entry.resource == name for each in entry.devices}
        if name not in told and not allocatable.get(name) and (devices or held):
            yield Seen(
                f"{name} has no devices that the kubelet can give to pods",
                (
                    f"{evidence.checkpoint.path}: {len(devices)} registered, {len(held)} in use",
                    "PodResources GetAllocatableResources: 0",
                ),
                resources=(name,),
            )


def _is_all_unhealthy(evidence: Examined, resource: str) -> bool:
    """Whether its plugin lives, and tells of each device that it is not healthy: that is another check's."""
    told = [each for each in evidence.resources if each.name == resource and each.plugin == "Live"]
    return any(each.devices and all(d.health != "Healthy" for d in each.devices) for each in told)


def _told(evidence: Examined) -> set[str]:
    return {each.name for each in evidence.resources}


def below_capacity(evidence: Examined) -> Iterator[Seen]:
    for each in evidence.resources:
        all_gone = each.allocatable == 0 and not _is_all_unhealthy(evidence, each.name)
        if each.allocatable < each.capacity and not all_gone:
            bad = [device for device in each.devices if device.health != "Healthy"]
            said = tuple(f"{d.id}: {d.health}{f' ({d.reason})' if d.reason else ''}" for d in bad[:_MOST_NAMED])
            yield Seen(
                f"{each.capacity - each.allocatable} of {each.capacity} devices of {each.name} are not healthy",
                (f"{each.source}: capacity {each.capacity}, allocatable {each.allocatable}", *said),
                resources=(each.name,),
            )
    allocatable = evidence.pod_resources.allocatable
    if allocatable is None:
        return
    for name, devices in sorted(evidence.checkpoint.registered.items()):
        healthy = allocatable.get(name, frozenset())
        held = {d for entry in evidence.checkpoint.entries if entry.resource == name for d in entry.devices}
        gone = sorted(set(devices) - healthy - held)
        if name not in _told(evidence) and healthy and gone:
            yield Seen(
                f"{len(gone)} devices of {name} are no longer healthy",
                (
                    f"{evidence.checkpoint.path}: {', '.join(gone[:_MOST_NAMED])} healthy when it was written",
                    f"PodResources GetAllocatableResources: {len(healthy)} devices, without them",
                ),
                resources=(name,),
            )


def allocated_unhealthy(evidence: Examined) -> Iterator[Seen]:
    told = {each.name for each in evidence.resources if each.devices}
    for resource in evidence.resources:
        for device in resource.devices:
            if device.holder and device.health != "Healthy" and resource.plugin == "Live":
                yield Seen(
                    f"Pod {device.holder} holds {device.id} of {resource.name}, which is not healthy",
                    (f"{resource.source}: {device.id} {device.health}{f', {device.reason}' if device.reason else ''}",),
                    pods=(device.holder,),
                    resources=(resource.name,),
                )
    allocatable = evidence.pod_resources.allocatable
    if allocatable is None:
        return
    for entry in evidence.checkpoint.entries:
        healthy = allocatable.get(entry.resource)
        bad = [each for each in entry.devices if healthy and each not in healthy]
        if bad and entry.resource not in told and evidence.pod(entry.pod_uid):
            yield Seen(
                f"Pod {evidence.pod_title(entry.pod_uid)} holds {', '.join(bad)} of {entry.resource}, "
                "which is not healthy or no longer there",
                (
                    f"{evidence.checkpoint.path}: container {entry.container} holds {', '.join(entry.devices)}",
                    f"PodResources GetAllocatableResources: {len(healthy or ())} devices, without {', '.join(bad)}",
                ),
                pods=(entry.pod_uid,),
                resources=(entry.resource,),
            )


def unreleased(evidence: Examined) -> Iterator[Seen]:
    for each in evidence.releases:
        if each.attempts > 1 or _age_s(each.since, evidence.machine.now_s) > _LONG_RELEASE_S:
            yield Seen(
                f"{', '.join(each.devices)} of {each.resource} waits for its plugin to release it",
                (f"the node's releases: since {each.since}, {each.attempts} attempts, last held by {each.pod}",),
                pods=(each.pod,),
                resources=(each.resource,),
            )


def _age_s(since: str, now_s: float) -> float:
    try:
        return now_s - datetime.fromisoformat(since).timestamp()
    except ValueError:
        return 0


def flapping(evidence: Examined) -> Iterator[Seen]:
    counts: dict[tuple[str, str], int] = {}
    for each in evidence.happenings:
        if _REGISTERED.fullmatch(each.reason):
            found = _OF.search(each.message)
            name = found["name"] if found else each.message
            counts[name, each.source] = counts.get((name, each.source), 0) + each.count
    for (name, source), count in sorted(counts.items()):
        if count >= _OFTEN:
            yield Seen(
                f"A plugin has registered {name} {count} times, lately",
                (f"{source}: {count} registrations of {name}",),
                resources=(name,),
            )


CHECKS: Final = (
    Check(
        "PBD301",
        FindingSeverity.ERROR,
        "A resource that is stuck at 0",
        "Its plugin is gone, hangs, or has not registered again since the kubelet restarted. The node still counts "
        "its devices for five minutes, and pods that hold some keep them; new pods are refused.",
        "Look at the plugin: PBD103 to PBD106 say whether it is gone, lost or hanging, its own log says why. Restart "
        "it.",
        (EvidenceSource.CHECKPOINT, EvidenceSource.POD_RESOURCES),
        stuck_at_zero,
    ),
    Check(
        "PBD302",
        FindingSeverity.WARNING,
        "Fewer devices can be given out than there are",
        "The plugin tells of some devices that they are not healthy. The scheduler sees fewer, and pods that fit "
        "before wait.",
        "The plugin's log, or the reason here, says what is wrong with the device. plugbay node devices shows all on "
        "a node of plugbay.",
        (EvidenceSource.CHECKPOINT, EvidenceSource.POD_RESOURCES),
        below_capacity,
    ),
    Check(
        "PBD303",
        FindingSeverity.ERROR,
        "A pod holds a device that is not healthy",
        "A device has failed or has been taken out after it was given to a pod. A kubelet lets the pod run on, and "
        "starts its containers again with the same device. If the node restarts, the pod is refused.",
        "Mend or replace the device, or delete the pod, so that its successor gets a healthy one.",
        (EvidenceSource.CHECKPOINT, EvidenceSource.POD_RESOURCES, EvidenceSource.PODS),
        allocated_unhealthy,
    ),
    Check(
        "PBD304",
        FindingSeverity.WARNING,
        "Devices that wait for their release",
        "A pod has ended, and its plugin has not confirmed Deallocate: it is down, or the call fails. Until then no "
        "other pod gets the devices.",
        "Start the plugin, or read in its log why the release fails. plugbay events shows each attempt.",
        (EvidenceSource.OBJECTS,),
        unreleased,
    ),
    Check(
        "PBD305",
        FindingSeverity.WARNING,
        "A plugin that registers again and again",
        "The plugin crashes and is started again, or two plugins take the resource from each other (PBD111). Each "
        "time its devices are unhealthy for a moment, and pods are refused.",
        "Look for restarts of the plugin's pod, and at its log: kubectl logs --previous.",
        (EvidenceSource.HAPPENINGS,),
        flapping,
    ),
)
