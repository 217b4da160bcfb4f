"""Checks of what the kubelet remembers and tells: the checkpoint and PodResources. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugbay.observe.doctor.evidence.values import CheckpointState, EvidenceSource, Examined
from plugbay.observe.doctor.finding import Check, FindingSeverity, Fix, FixKind, Seen
from plugbay.observe.view import SocketState

_ASKED: Final = (EvidenceSource.POD_RESOURCES, EvidenceSource.HOLDINGS)


def corrupt(evidence: Examined) -> Iterator[Seen]:
    found = evidence.checkpoint
    if found.state is CheckpointState.CORRUPT:
        yield Seen("The kubelet would not load its checkpoint", (f"{found.path}: {found.problem}",))


def old_format(evidence: Examined) -> Iterator[Seen]:
    found = evidence.checkpoint
    if found.state is CheckpointState.OLD:
        yield Seen("The checkpoint is one of kubelet 1.19 or older", (f"{found.path}: {found.problem}",))


def foreign(evidence: Examined) -> Iterator[Seen]:
    entries = evidence.checkpoint.entries
    if _is_foreign(evidence):
        yield Seen(
            "The checkpoint speaks of pods that are not on this node",
            (
                f"{evidence.checkpoint.path}: {len(entries)} entries of {len({e.pod_uid for e in entries})} pods",
                f"{evidence.kubelet.root}/pods: none of them",
            ),
        )


def stale(evidence: Examined) -> Iterator[Seen]:
    if _is_unseen(evidence) or _is_foreign(evidence):
        return
    present = _present(evidence)
    gone = [each for each in evidence.checkpoint.entries if each.pod_uid not in present]
    for each in gone:
        yield Seen(
            f"{', '.join(each.devices)} of {each.resource} still belongs to a pod that is gone",
            (
                f"{evidence.checkpoint.path}: pod {each.pod_uid}, container {each.container}",
                f"{evidence.kubelet.root}/pods: no such pod",
            ),
            resources=(each.resource,),
        )


def _is_unseen(evidence: Examined) -> bool:
    """Whether it is not known which pods are on this node."""
    return not _present(evidence) and any(each.source is EvidenceSource.PODS for each in evidence.gaps)


def _is_foreign(evidence: Examined) -> bool:
    """Whether the entries are of no pod on this node and, where a kubelet runs, of none of its devices.

    When the last pod with devices has ended, its entry is left, too: of devices that the node has.
    """
    entries = evidence.checkpoint.entries
    if not entries or _present(evidence) or _is_unseen(evidence):
        return False
    if evidence.registration is None or evidence.registration.state is not SocketState.LISTENING:
        return True
    offered = evidence.pod_resources.allocatable or evidence.checkpoint.registered
    return not any(device in offered.get(each.resource, ()) for each in entries for device in each.devices)


def _present(evidence: Examined) -> set[str]:
    """The pods of the checkpoint that are on this node."""
    holders = {each.pod_uid for each in evidence.checkpoint.entries}
    return {each.uid for each in evidence.pods if each.uid in holders and (each.has_directory or each.name)}


def two_owners(evidence: Examined) -> Iterator[Seen]:
    present = _present(evidence)
    owners: dict[tuple[str, str], set[str]] = {}
    for each in evidence.checkpoint.entries:
        for device in each.devices:
            if each.pod_uid in present:
                owners.setdefault((each.resource, device), set()).add(each.pod_uid)
    for (resource, device), pods in sorted(owners.items()):
        if len(pods) > 1:
            names = sorted(evidence.pod_title(each) for each in pods)
            yield Seen(
                f"{device} of {resource} was given to {len(pods)} pods: {', '.join(names)}",
                (f"{evidence.checkpoint.path}: entries of {', '.join(sorted(pods))}",),
                pods=tuple(sorted(pods)),
                resources=(resource,),
            )


def disagreement(evidence: Examined) -> Iterator[Seen]:
    held = evidence.pod_resources.held
    if held is None or evidence.checkpoint.state is not CheckpointState.VALID:
        return
    written: dict[tuple[str, str, str], set[str]] = {}
    for entry in evidence.checkpoint.entries:
        written.setdefault((entry.pod_uid, entry.container, entry.resource), set()).update(entry.devices)
    for pod in evidence.pods:
        containers = held.get((pod.namespace, pod.name)) if pod.name else None
        if containers is None:
            continue
        for name, resources in containers.items():  # init containers are not told
            known = {resource for uid, container, resource in written if (uid, container) == (pod.uid, name)}
            for resource in sorted(known | set(resources)):
                said = resources.get(resource, frozenset())
                kept = written.get((pod.uid, name, resource), set())
                if said != kept:
                    yield Seen(
                        f"Container {name} of {pod.title} holds other devices of {resource} than the checkpoint says",
                        (
                            f"PodResources {evidence.pod_resources.call}: {', '.join(sorted(said)) or 'none'}",
                            f"{evidence.checkpoint.path}: {', '.join(sorted(kept)) or 'none'}",
                        ),
                        pods=(pod.uid,),
                        resources=(resource,),
                    )


def open_checkpoint(evidence: Examined) -> Iterator[Seen]:
    found = evidence.checkpoint
    if found.state is not CheckpointState.MISSING and found.mode & 0o077:
        yield Seen(
            "Users other than root may read or write the checkpoint",
            (f"{found.path}: mode {found.mode:04o}",),
            remedy=f"chmod 0600 {found.path}",
        )


def unfinished(evidence: Examined) -> Iterator[Seen]:
    if found := evidence.checkpoint.unfinished:
        yield Seen(
            f"{len(found)} files of checkpoints that were never finished are left",
            tuple(f"{each}: older than a minute" for each in found[:3]),
            fixes=tuple(Fix(FixKind.REMOVE_FILE, each) for each in found),
        )


def no_pod_resources(evidence: Examined) -> Iterator[Seen]:
    registration, socket = evidence.registration, evidence.pod_resources_socket
    if registration is None or registration.state is not SocketState.LISTENING:
        return
    path = f"{evidence.kubelet.root}/pod-resources/kubelet.sock"
    if socket is None and not evidence.is_unread(path):
        yield Seen("Monitors cannot ask which pod has which device", (f"{path}: there is no such socket",))
    elif socket is not None and socket.state is SocketState.DEAD:
        yield Seen("Monitors cannot ask which pod has which device", (f"{path}: {socket.state.value}",))


def late_pod_resources(evidence: Examined) -> Iterator[Seen]:
    socket = evidence.pod_resources_socket
    full = socket is not None and socket.state is SocketState.FULL
    if evidence.pod_resources.is_late or full:
        why = next((str(each) for each in evidence.gaps if each.source in _ASKED), "")
        said = why or f"{evidence.kubelet.root}/pod-resources/kubelet.sock: its queue of connections is full"
        yield Seen("The kubelet does not answer questions about devices", (said,))


CHECKS: Final = (
    Check(
        "PBD201",
        FindingSeverity.ERROR,
        "A checkpoint that the kubelet would not load",
        "The file was cut off by a full disk or a crash, or edited by hand. At its next start the kubelet logs an "
        "error and goes on with nothing: it forgets who has which device, and gives devices in use to new pods.",
        "Do not restart the kubelet yet: as long as it runs, it writes the file anew with the next allocation or the "
        "next list of a plugin. If it is down, drain the node first, then move the file away. plugbay checkpoint show "
        "reads what can be read.",
        (EvidenceSource.CHECKPOINT,),
        corrupt,
    ),
    Check(
        "PBD202",
        FindingSeverity.ERROR,
        "A checkpoint of kubelet 1.19 or older",
        "Kubelets from 1.30 on do not read that format: after an upgrade they start with nothing, and devices in use "
        "are given a second time.",
        "Convert it while the kubelet is stopped: plugbay checkpoint convert, or drain the node and move the file "
        "away.",
        (EvidenceSource.CHECKPOINT,),
        old_format,
    ),
    Check(
        "PBD203",
        FindingSeverity.WARNING,
        "A checkpoint of another node",
        "None of the pods in the checkpoint is on this node, and none of their devices is offered here: the disk is a "
        "copy of another machine's. Until it next gives out devices, the kubelet takes them for in use.",
        "Stop the kubelet, move kubelet_internal_checkpoint away, and start it again; no pod of this node is in it.",
        (EvidenceSource.CHECKPOINT, EvidenceSource.PODS),
        foreign,
    ),
    Check(
        "PBD204",
        FindingSeverity.INFO,
        "Devices of a pod that is gone",
        "A kubelet frees the devices of a pod that has ended only when it next admits a pod that wants devices, or "
        "when PodResources is asked for a list. Until then its checkpoint shows them in use.",
        "Nothing has to be done. If a pod waits for these devices all the same, look for PBD401.",
        (EvidenceSource.CHECKPOINT, EvidenceSource.PODS),
        stale,
    ),
    Check(
        "PBD205",
        FindingSeverity.ERROR,
        "A device with two owners",
        "Two pods hold the same device: the checkpoint was lost while pods ran, or a list of PodResources was asked "
        "for while an Allocate was under way.",
        "Delete one of the pods; its controller makes a new one, which gets another device or waits.",
        (EvidenceSource.CHECKPOINT, EvidenceSource.PODS),
        two_owners,
    ),
    Check(
        "PBD206",
        FindingSeverity.ERROR,
        "The checkpoint and PodResources disagree",
        "What the kubelet remembers in memory differs from what it has written, so that a restart changes which "
        "container holds which device. The file could not be written (see PBD707, PBD708), or was replaced by hand.",
        "Free the disk, and have the kubelet write the file anew: restart a plugin, whose list makes it write.",
        (EvidenceSource.CHECKPOINT, EvidenceSource.POD_RESOURCES, EvidenceSource.HOLDINGS, EvidenceSource.PODS),
        disagreement,
    ),
    Check(
        "PBD207",
        FindingSeverity.WARNING,
        "The checkpoint is open to other users",
        "It holds the plugins' answers: environment variables of containers, often with secrets, paths and devices. A "
        "user who may write it decides what containers get after the next restart.",
        "Close it: chmod 0600; a kubelet writes it so.",
        (EvidenceSource.CHECKPOINT,),
        open_checkpoint,
    ),
    Check(
        "PBD208",
        FindingSeverity.INFO,
        "Checkpoints that were never finished",
        "The kubelet, or our node, was killed while it wrote. The files are never read, and nothing removes them.",
        "Remove them: plugbay doctor --fix.",
        (EvidenceSource.CHECKPOINT,),
        unfinished,
    ),
    Check(
        "PBD209",
        FindingSeverity.WARNING,
        "No PodResources service",
        "The kubelet takes plugins but does not tell which pod has which device: it is older than 1.20, the gate "
        "KubeletPodResources is off, or its directory was removed while it ran.",
        "Restart the kubelet; it makes the directory and the socket anew.",
        (EvidenceSource.SOCKETS,),
        no_pod_resources,
    ),
    Check(
        "PBD210",
        FindingSeverity.ERROR,
        "PodResources does not answer",
        "The kubelet accepts the question and does not answer it in time: it waits for a lock that a stuck Allocate, "
        "a disk or the engine holds. Admission of pods waits for the same.",
        "Look for a plugin that hangs (PBD106) and a disk that does (dmesg); then restart the kubelet.",
        (EvidenceSource.POD_RESOURCES,),
        late_pod_resources,
    ),
)
