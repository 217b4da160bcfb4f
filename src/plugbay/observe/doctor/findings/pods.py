"""Checks of pods that do not run: why the kubelet refused them, or what they wait for. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from plugbay.observe.doctor.evidence.values import EvidenceSource, Examined, PodHappening, PodSight
from plugbay.observe.doctor.finding import Check, FindingSeverity, Seen

_PREFIX: Final = re.compile(r"^(Pod was rejected: )?(Allocate failed due to )?")
_SUFFIX: Final = ", which is unexpected"
_RESOURCE: Final = re.compile(r"[a-z0-9][a-z0-9.-]*\.[a-z0-9-]+/[A-Za-z0-9._-]*[A-Za-z0-9]")
_LONG_END_S: Final = 60
_MOST_HOLDERS: Final = 8

_WHY: Final = (
    (
        "requested number of devices unavailable",
        "too few devices are free: others hold them, or some are not healthy",
        "Wait for a pod with these devices to end, or ask for fewer; PBD204 and PBD302 show what may come free. "
        "The kubelet does not try again: delete the pod.",
    ),
    (
        "no healthy devices present",
        "no device is healthy: the plugin has told of none since the kubelet started",
        "Restart the plugin (PBD103 to PBD106 show its state), then delete the pod; its controller makes a new one.",
    ),
    (
        "previously allocated devices are no longer healthy",
        "the pod held devices before the kubelet restarted, and the plugin was not back in time, or they have failed",
        "Once the plugin offers the devices again, delete the pod; its controller makes a new one.",
    ),
    (
        "cannot allocate unregistered device",
        "no plugin has registered the resource since the kubelet started",
        "Start the plugin, wait until the node shows the resource, then delete the pod.",
    ),
    (
        "unknown Device Plugin",
        "the plugin vanished while devices were chosen",
        "Start the plugin again, then delete the pod.",
    ),
    (
        "has been stopped",
        "the plugin's connection had ended",
        "Start the plugin again, then delete the pod.",
    ),
    (
        "endpoint not found in cache",
        "the kubelet knows the resource from its checkpoint only: the plugin has not registered since the restart",
        "Start the plugin, then delete the pod.",
    ),
    (
        "no containers return in allocation response",
        "the plugin's answer to Allocate was empty",
        "The plugin has a fault: plugbay conform shows it.",
    ),
    (
        "GetPreferredAllocation rpc failed",
        "the plugin failed to choose devices",
        "The plugin's log says why.",
    ),
    (
        "failed to write checkpoint file",
        "the kubelet could not write its checkpoint",
        "Free the disk of the kubelet's root (PBD707, PBD708), then delete the pod.",
    ),
    (
        "changed request for resource",
        "the pod asks for another number of devices than it was given",
        "Delete the pod; its limits cannot change while it holds devices.",
    ),
    (
        "rpc error",
        "the plugin's Allocate failed, or did not end",
        "The message is the plugin's: its log says more. Then delete the pod.",
    ),
)


def _refused(reasons: Callable[[str], bool]) -> Callable[[Examined], Iterator[Seen]]:
    def find(evidence: Examined) -> Iterator[Seen]:
        yield from _rejections(evidence, reasons)

    return find


def _rejections(evidence: Examined, reasons: Callable[[str], bool]) -> Iterator[Seen]:
    seen: set[str] = set()
    for pod in evidence.pods:
        if reasons(pod.reason) and pod.phase in ("Failed", ""):
            seen |= {pod.title, pod.uid}
            yield _rejection(evidence, pod, pod.reason, pod.message, "the pod's status")
    for each in evidence.happenings:
        if reasons(each.reason) and each.pod and each.pod not in seen and not _is_over(each, evidence):
            seen.add(each.pod)
            namespace, _, name = each.pod.partition("/")
            yield _rejection(evidence, PodSight(each.uid, namespace, name), each.reason, each.message, each.source)


def _is_over(happening: PodHappening, evidence: Examined) -> bool:
    """Whether the pod is gone since, or another one has its name by now, or it runs."""
    named = [each for each in evidence.pods if each.title == happening.pod]
    if not named:  # without objects, a pod that was refused has neither directory nor logs
        return any(each.phase for each in evidence.pods)
    others = happening.uid and all(each.uid != happening.uid for each in named)
    return bool(others) or any(each.phase in ("Running", "Succeeded") for each in named)


def _rejection(evidence: Examined, pod: PodSight, reason: str, message: str, source: str) -> Seen:
    said = _PREFIX.sub("", message).removesuffix(_SUFFIX)
    why, remedy = next(((w, r) for text, w, r in _WHY if text in said), ("", ""))
    resources = tuple(dict.fromkeys(_RESOURCE.findall(said)))
    return Seen(
        f"Pod {pod.title} was refused by the kubelet{f': {why}' if why else ''}",
        (f"{source}: {reason}: {said}", *_holders(evidence, resources)),
        pods=tuple(each for each in (pod.title, pod.uid) if each),
        resources=resources,
        remedy=remedy,
    )


def _holders(evidence: Examined, resources: Iterable[str]) -> Iterator[str]:
    """The devices of each resource, and the pods that have them, as they are now."""
    allocatable = evidence.pod_resources.allocatable
    for name in resources:
        if allocatable is not None:
            yield f"PodResources GetAllocatableResources, now: {len(allocatable.get(name, ()))} devices of {name}"
        held = [each for each in evidence.checkpoint.entries if each.resource == name]
        for each in held[:_MOST_HOLDERS]:
            owner = evidence.pod_title(each.pod_uid)
            yield f"{evidence.checkpoint.path}, now: {', '.join(each.devices)} of {name} is held by {owner}"


def waiting(evidence: Examined) -> Iterator[Seen]:
    for pod in evidence.pods:
        if pod.phase == "Pending" and "Insufficient " in pod.message:
            names = tuple(dict.fromkeys(_RESOURCE.findall(pod.message)))
            if not names:
                continue
            yield Seen(
                f"Pod {pod.title} waits for {', '.join(names)}{_too_much(evidence, pod, names)}",
                (f"the pod's status: {pod.reason}: {pod.message}", *_supply(evidence, names)),
                pods=(pod.uid, pod.title),
                resources=names,
            )


def _too_much(evidence: Examined, pod: PodSight, names: Iterable[str]) -> str:
    """The clause that says that waiting is of no use here."""
    for told in evidence.resources:
        asked = [each.limits.get(told.name, "0") for each in pod.containers]
        wanted = sum(int(each) for each in asked if each.isdigit())
        if told.name in names and wanted > told.capacity:
            return f": it asks for {wanted}, and this node has {told.capacity} in all"
    return ""


def _supply(evidence: Examined, names: Iterable[str]) -> Iterator[str]:
    """How many there are of each resource, and who has them."""
    for name in names:
        told = next((each for each in evidence.resources if each.name == name), None)
        if told is None:
            yield f"{name}: this node has no such resource"
            continue
        holders = sorted({each.holder for each in told.devices if each.holder})
        by = f", held by {', '.join(holders)}" if holders else ""
        yield f"{told.source}: {name}: capacity {told.capacity}, allocatable {told.allocatable}{by}"


def _mentioning(patterns: re.Pattern[str], sentence: str) -> Callable[[Examined], Iterator[Seen]]:
    """Pods of which a container waits, or an event or a log line speaks, in words that ``patterns`` find."""

    def find(evidence: Examined) -> Iterator[Seen]:
        seen: set[str] = set()
        for pod in evidence.pods:
            for container in pod.containers:
                if patterns.search(container.message):
                    seen.add(pod.title)
                    said = f"container {container.name}: {container.waiting}: {container.message}"
                    yield _stuck(sentence, pod.title, pod.uid, said)
        for each in evidence.happenings:
            if each.pod and each.pod not in seen and patterns.search(each.message) and not _is_over(each, evidence):
                seen.add(each.pod)
                yield _stuck(sentence, each.pod, each.uid, f"{each.source}: {each.reason}: {each.message}")

    return find


def _stuck(sentence: str, title: str, uid: str, said: str) -> Seen:
    return Seen(
        sentence.format(title),
        (said,),
        pods=tuple(each for each in (title, uid) if each),
        resources=tuple(dict.fromkeys(_RESOURCE.findall(said))),
    )


def ending(evidence: Examined) -> Iterator[Seen]:
    for pod in evidence.pods:
        late_s = evidence.machine.now_s - (pod.deleting_since_s or evidence.machine.now_s)
        if late_s > _LONG_END_S:
            held = [each for each in evidence.checkpoint.entries if each.pod_uid == pod.uid]
            yield Seen(
                f"Pod {pod.title} should have ended {late_s:.0f} s ago",
                (
                    f"the pod's deletionTimestamp: {late_s:.0f} s ago",
                    *(f"{evidence.checkpoint.path}: it holds {', '.join(e.devices)} of {e.resource}" for e in held),
                ),
                pods=(pod.uid, pod.title),
                resources=tuple(sorted({each.resource for each in held})),
            )


_NEEDS: Final = (EvidenceSource.OBJECTS, EvidenceSource.HAPPENINGS)

CHECKS: Final = (
    Check(
        "PBD401",
        FindingSeverity.ERROR,
        "A pod that ended with UnexpectedAdmissionError",
        "The scheduler gave the pod to this node, and the kubelet could not give it its devices: the plugin was away, "
        "the devices were not healthy or already in use, or the plugin's Allocate failed. That is final.",
        "Mend what the message says, then delete the pod: the kubelet never tries it again.",
        _NEEDS,
        _refused(lambda reason: reason == "UnexpectedAdmissionError"),
    ),
    Check(
        "PBD402",
        FindingSeverity.ERROR,
        "A pod that the kubelet refused with OutOf… or NodeAffinity",
        "The pod was bound to this node though it does not fit: by a second scheduler or by spec.nodeName, by the "
        "scheduler before the node told of fewer devices, or because the node's labels changed.",
        "Delete the pod, so that its controller makes a new one and the scheduler places it by what the node has now. "
        "Do not set spec.nodeName.",
        _NEEDS,
        _refused(lambda reason: reason.startswith("OutOf") or reason in ("NodeAffinity", "NodeName", "AdmissionError")),
    ),
    Check(
        "PBD403",
        FindingSeverity.ERROR,
        "A pod that ended with TopologyAffinityError",
        "The topology policy of the kubelet wants the pod's devices and CPUs on one NUMA node, or on as few as "
        "possible, and what is free lies on several. That is final, and the scheduler knows nothing of it.",
        "Delete the pod once devices of one NUMA node are free, ask for fewer, or take the policy best-effort. "
        "plugbay node devices shows the NUMA nodes on a node of plugbay.",
        _NEEDS,
        _refused(lambda reason: reason == "TopologyAffinityError"),
    ),
    Check(
        "PBD404",
        FindingSeverity.WARNING,
        "A pod that waits for devices",
        "No node has enough free devices of the resource: all are in use, some are not healthy, or no plugin offers "
        "them.",
        "Wait for a pod that holds some, add devices, or start the plugin. The evidence shows how many there are and "
        "which pods have them.",
        (EvidenceSource.OBJECTS,),
        waiting,
    ),
    Check(
        "PBD405",
        FindingSeverity.ERROR,
        "A container that cannot get its CDI devices",
        "The plugin answered with CDI names that no usable spec file of this node defines, or the engine does not "
        "look where the file is.",
        "See PBD501 to PBD506: they say whether the spec is missing, bad, or elsewhere. plugbay cdi list shows the "
        "devices that can be injected.",
        _NEEDS,
        _mentioning(
            re.compile(r"CDI device injection failed|unresolvable CDI device"), "Pod {} cannot get its CDI devices"
        ),
    ),
    Check(
        "PBD406",
        FindingSeverity.ERROR,
        "A container that PreStartContainer keeps from starting",
        "The plugin wants to be called before each start of a container, and the call fails or takes more than 30 s. "
        "The kubelet tries again, later and later.",
        "The message is the plugin's, its log says more. If the plugin is away, start it.",
        _NEEDS,
        _mentioning(
            re.compile(r"PreStartContainer rpc failed|no devices found allocated in local cache"),
            "The plugin keeps a container of pod {} from starting",
        ),
    ),
    Check(
        "PBD407",
        FindingSeverity.WARNING,
        "A pod that does not end",
        "The pod was deleted, and its grace period is over: a process of it hangs in the kernel, usually in a driver, "
        "or the engine does not answer. It keeps its devices.",
        "Look for processes in state D (ps -eo pid,stat,wchan,cmd) and at dmesg. A device that hangs needs a reset, "
        "at worst of the machine.",
        (EvidenceSource.OBJECTS,),
        ending,
    ),
)
