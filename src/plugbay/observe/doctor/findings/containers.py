"""Checks of what containers are given: CDI, the engine, device nodes, networks. Pure."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from typing import Final

from plugbay.observe.doctor.evidence.machine_values import HostFile
from plugbay.observe.doctor.evidence.values import ContainerSight, EvidenceSource, Examined
from plugbay.observe.doctor.finding import Check, FindingSeverity, Fix, FixKind, Seen

_MOST_NAMED: Final = 3
_OURS: Final = ("process", "oci")
"""The runtimes of our node that do without a container engine."""


def bad_specs(evidence: Examined) -> Iterator[Seen]:
    for path, problem in evidence.specs.bad:
        yield Seen("Engines skip a CDI spec, and do not know its devices", (f"{path}: {problem}",))


def conflicts(evidence: Examined) -> Iterator[Seen]:
    for problem in dict.fromkeys(problem for _, problem in evidence.specs.conflicts):
        paths = [path for path, each in evidence.specs.conflicts if each == problem]
        yield Seen("Two CDI specs define the same device, so that no container gets it", (f"{paths[0]}: {problem}",))


def undefined(evidence: Examined) -> Iterator[Seen]:
    for entry in evidence.checkpoint.entries:
        names = entry.edits.cdi_devices if entry.edits else ()
        missing = [each for each in names if each not in evidence.specs.devices]
        if missing and evidence.pod(entry.pod_uid):
            where = ", ".join(evidence.specs.directories) or "/etc/cdi and /var/run/cdi, which do not exist"
            yield Seen(
                f"No CDI spec defines {', '.join(missing)}, which pod {evidence.pod_title(entry.pod_uid)} was given",
                (
                    f"{evidence.checkpoint.path}: container {entry.container}, {entry.resource}: {', '.join(missing)}",
                    f"{where}: {len(evidence.specs.devices)} devices, without it",
                ),
                pods=(entry.pod_uid,),
                resources=(entry.resource,),
            )


def stale_specs(evidence: Examined) -> Iterator[Seen]:
    gone: dict[str, list[HostFile]] = {}
    for each in evidence.specs.files:
        if each.mode is None:
            gone.setdefault(each.wanted_by.rpartition(" ")[2], []).append(each)
    for path, files in sorted(gone.items()):
        told = tuple(f"{each.path}: no such {each.kind}, wanted by {each.wanted_by}" for each in files[:_MOST_NAMED])
        more = (f"{len(files) - _MOST_NAMED} more of {path}",) if len(files) > _MOST_NAMED else ()
        yield Seen(f"A CDI spec takes {len(files)} files from the host that are not there", (*told, *more))


def no_cdi(evidence: Examined) -> Iterator[Seen]:
    engine = evidence.engine
    if engine is None or engine.cdi is not False or not _uses_engine(evidence):
        return
    users = [each for each in evidence.checkpoint.entries if each.edits and each.edits.cdi_devices]
    if users or evidence.specs.devices:
        yield Seen(
            f"{engine.name} does not inject CDI devices, and plugins use them",
            (
                f"{engine.config or engine.socket}: {engine.why_cdi}",
                *(f"{evidence.checkpoint.path}: {', '.join(e.edits.cdi_devices)}" for e in users[:1] if e.edits),
                f"{', '.join(evidence.specs.directories)}: {len(evidence.specs.devices)} devices",
            ),
            pods=tuple(each.pod_uid for each in users),
        )


def other_directories(evidence: Examined) -> Iterator[Seen]:
    engine = evidence.engine
    if engine is None or not engine.cdi or not _uses_engine(evidence):
        return
    looked = {each.replace("/var/run/", "/run/").rstrip("/") for each in engine.spec_directories}
    for each in evidence.specs.directories:
        if each.replace("/var/run/", "/run/") not in looked and any(
            path.wanted_by.rpartition(" ")[2].startswith(f"{each}/") for path in evidence.specs.files
        ):
            yield Seen(
                f"{engine.name} does not look for CDI specs in {each}, where some are",
                (f"{engine.config}: cdi_spec_dirs = {', '.join(engine.spec_directories)}",),
            )


def unfinished_specs(evidence: Examined) -> Iterator[Seen]:
    if found := evidence.specs.unfinished:
        yield Seen(
            f"{len(found)} CDI specs that were never finished are left",
            tuple(f"{each}: older than an hour" for each in found[:_MOST_NAMED]),
            fixes=tuple(Fix(FixKind.REMOVE_FILE, each) for each in found),
        )


def ignored_specs(evidence: Examined) -> Iterator[Seen]:
    if found := evidence.specs.ignored:
        yield Seen(
            "Files among the CDI specs have an ending that engines do not read",
            tuple(f"{each}: engines read .json and .yaml" for each in found[:_MOST_NAMED]),
        )


def engine_down(evidence: Examined) -> Iterator[Seen]:
    engine = evidence.engine
    if engine is not None and not engine.is_listening and _uses_engine(evidence):
        yield Seen(f"{engine.name} is down", (f"{engine.socket}: no process listens",))


def gone_files(evidence: Examined) -> Iterator[Seen]:
    for each in evidence.machine.given:
        if each.mode is None and evidence.pod(each.pod_uid):
            yield Seen(
                f"The {each.kind} {each.path}, which pod {evidence.pod_title(each.pod_uid)} was given, is gone",
                (f"{each.path}: no such file; given to {each.wanted_by}",),
                pods=(each.pod_uid,),
                resources=(each.resource,),
            )


def closed_nodes(evidence: Examined) -> Iterator[Seen]:
    if evidence.engine is not None and evidence.engine.owns_devices:
        return
    for each in evidence.machine.given:
        pod = evidence.pod(each.pod_uid)
        container = next((c for c in pod.containers if c.name == each.container), None) if pod else None
        if pod is None or container is None or each.mode is None or not _is_closed(each, container):
            continue
        rights = f"mode {stat.S_IMODE(each.mode):04o}, owner {each.uid}:{each.gid}"
        yield Seen(
            f"Container {container.name} of {pod.title} runs as user {container.user}, who may not open {each.path}",
            (f"{each.path}: {rights}", f"the pod's securityContext: runAsUser {container.user}"),
            pods=(each.pod_uid,),
            resources=(each.resource,),
        )


def _is_closed(file: HostFile, container: ContainerSight) -> bool:
    """Whether a device node cannot be read by the container's user; root in a container may open any."""
    mode = file.mode or 0
    if not container.user or not (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)):
        return False
    if file.uid == container.user:
        return not mode & stat.S_IRUSR
    if file.gid in container.groups:
        return not mode & stat.S_IRGRP
    return not mode & stat.S_IROTH


# --- networks -------------------------------------------------------------------------------------------------------


def no_network(evidence: Examined) -> Iterator[Seen]:
    if not _uses_engine(evidence):
        return
    cni = evidence.cni
    unread = any(each.source is EvidenceSource.CNI for each in evidence.gaps)
    if not cni.is_there and not unread:
        yield Seen(
            "No pod gets a network: the CNI directory is missing",
            (f"{cni.directory}: there is no such directory",),
            fixes=(Fix(FixKind.MAKE_DIRECTORY, cni.directory),),
        )
    elif not cni.networks and not cni.bad and not unread:
        yield Seen("No pod gets a network: the CNI directory is empty", (f"{cni.directory}: no network configuration",))


def bad_network(evidence: Examined) -> Iterator[Seen]:
    if _uses_engine(evidence):
        for path, problem in evidence.cni.bad:
            yield Seen("A network's configuration is of no use", (f"{path}: {problem}",))


def missing_plugin(evidence: Examined) -> Iterator[Seen]:
    cni, engine = evidence.cni, evidence.engine
    if _uses_engine(evidence) and cni.missing and engine is not None:
        path, name, _ = cni.networks[0]
        yield Seen(
            f"The network {name} wants plugins that are not installed: {', '.join(cni.missing)}",
            (f"{path}: it names them", f"{', '.join(engine.plugin_directories)}: no such program"),
        )


def _uses_engine(evidence: Examined) -> bool:
    """Whether the kubelet has its containers made by the engine; a node of ours that is down does not tell."""
    kubelet = evidence.kubelet
    is_known = bool(kubelet.runtime) or not kubelet.is_ours
    return evidence.engine is not None and is_known and kubelet.runtime not in _OURS


CHECKS: Final = (
    Check(
        "PBD501",
        FindingSeverity.ERROR,
        "A CDI spec that engines do not use",
        "The file has a fault, and one unknown field is enough. Engines log that and skip the whole file; containers "
        "with its devices do not start.",
        "plugbay cdi validate says what is wrong. Have the file made again by the program that wrote it, such as "
        "nvidia-ctk cdi generate, or by the plugin.",
        (EvidenceSource.CDI,),
        bad_specs,
    ),
    Check(
        "PBD502",
        FindingSeverity.ERROR,
        "CDI specs that define the same device",
        "Two files in the same directory define a device of the same name. Engines then refuse both: containers with "
        "that device do not start. Often a driver's package and a plugin both write a spec.",
        "Remove one of the files.",
        (EvidenceSource.CDI,),
        conflicts,
    ),
    Check(
        "PBD503",
        FindingSeverity.ERROR,
        "A CDI device that no spec defines",
        "A plugin gave a container a CDI name, and no file defines it any more: /var/run/cdi is emptied by a reboot, "
        "and the plugin has not written its spec again, or it writes to another directory. The container cannot start "
        "again.",
        "Restart the plugin, which writes its spec at its start; in a pod it needs /var/run/cdi of the host mounted.",
        (EvidenceSource.CHECKPOINT, EvidenceSource.CDI, EvidenceSource.PODS),
        undefined,
    ),
    Check(
        "PBD504",
        FindingSeverity.ERROR,
        "A CDI spec of files that are gone",
        "The spec names device nodes, libraries or hooks that the host does not have: after a driver's update the "
        "spec is that of the old version, or the driver is not loaded. Containers with these devices do not start.",
        "Write the spec anew: nvidia-ctk cdi generate, or restart the plugin. If device nodes are missing, load the "
        "driver.",
        (EvidenceSource.CDI,),
        stale_specs,
    ),
    Check(
        "PBD505",
        FindingSeverity.ERROR,
        "The engine does not inject CDI devices",
        "containerd 1.7 does so only with enable_cdi = true, and 1.6 cannot at all: it ignores the names, so that "
        "containers start without their devices.",
        "Set enable_cdi = true in the section of the CRI plugin of /etc/containerd/config.toml, and restart "
        "containerd; containerd 2 does it by default.",
        (EvidenceSource.ENGINE, EvidenceSource.CDI, EvidenceSource.CHECKPOINT),
        no_cdi,
    ),
    Check(
        "PBD506",
        FindingSeverity.WARNING,
        "CDI specs where the engine does not look",
        "The engine's cdi_spec_dirs has been set, and leaves out a directory in which there are specs.",
        "Add the directory to cdi_spec_dirs, or have the specs written where the engine looks.",
        (EvidenceSource.ENGINE, EvidenceSource.CDI),
        other_directories,
    ),
    Check(
        "PBD507",
        FindingSeverity.INFO,
        "CDI specs that were never finished",
        "A program was killed while it wrote a spec. Engines do not read such files, and nothing removes them.",
        "Remove them: plugbay doctor --fix.",
        (EvidenceSource.CDI,),
        unfinished_specs,
    ),
    Check(
        "PBD508",
        FindingSeverity.INFO,
        "Files among the CDI specs that engines do not read",
        "Engines read files that end in .json or .yaml, and nothing else: not .yml.",
        "Rename the file, or move it away.",
        (EvidenceSource.CDI,),
        ignored_specs,
    ),
    Check(
        "PBD509",
        FindingSeverity.ERROR,
        "The container engine is down",
        "No process listens at the engine's socket. Pods that run go on; none starts, and none ends in order.",
        "systemctl status containerd (or crio), journalctl -u containerd; then systemctl restart it.",
        (EvidenceSource.ENGINE,),
        engine_down,
    ),
    Check(
        "PBD511",
        FindingSeverity.ERROR,
        "A file that a container was given is gone",
        "The plugin's answer names a device node or a file of the host that no longer exists: the device was pulled, "
        "the driver unloaded, or the node has another name since the reboot. The container cannot start again with it.",
        "Bring the device back (modprobe, udevadm trigger), or delete the pod, so that its successor gets another.",
        (EvidenceSource.CHECKPOINT, EvidenceSource.GIVEN, EvidenceSource.PODS),
        gone_files,
    ),
    Check(
        "PBD512",
        FindingSeverity.WARNING,
        "A device node that the container's user may not open",
        "Engines make a container's device node with the owner and the mode that it has on the host. The container "
        "runs as another user, so that opening it fails with Permission denied, though the pod holds the device.",
        "Give the container the node's group by supplementalGroups, change the node's mode by a udev rule, or set "
        "device_ownership_from_security_context = true in the engine's configuration.",
        (EvidenceSource.CHECKPOINT, EvidenceSource.GIVEN, EvidenceSource.OBJECTS),
        closed_nodes,
    ),
    Check(
        "PBD601",
        FindingSeverity.ERROR,
        "No network for pods",
        "The engine finds no network configuration: the network's DaemonSet has not written one yet, cannot, or was "
        "removed. The node is NotReady, and pods stay in ContainerCreating.",
        "Look at the pods of the network add-on (kubectl -n kube-system get pods -o wide). A missing directory can be "
        "made again: plugbay doctor --fix.",
        (EvidenceSource.ENGINE, EvidenceSource.CNI),
        no_network,
    ),
    Check(
        "PBD602",
        FindingSeverity.ERROR,
        "A network configuration with a fault",
        "The engine cannot use the file; if it is the first one, no pod gets a network, for the next file is not "
        "taken instead.",
        "plugbay cni validate says what is wrong.",
        (EvidenceSource.ENGINE, EvidenceSource.CNI),
        bad_network,
    ),
    Check(
        "PBD603",
        FindingSeverity.ERROR,
        "A network plugin that is not installed",
        "The network's configuration names a program that is in none of the engine's directories for plugins.",
        "Install it there: package containernetworking-plugins, or the network add-on's own installer.",
        (EvidenceSource.ENGINE, EvidenceSource.CNI),
        missing_plugin,
    ),
)
