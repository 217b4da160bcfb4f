"""Checks of the kubelet's settings and of the machine. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from plugbay.observe.doctor.evidence.values import DAMAGED, EvidenceSource, Examined, option
from plugbay.observe.doctor.finding import Check, FindingSeverity, Seen
from plugbay.observe.view import SocketState

_CDI_SINCE: Final = (1, 29)
_NO_CGROUP_V1: Final = (1, 35)
_GATES: Final = {
    "DevicePlugins": "device plugins are not served at all",
    "DevicePluginCDIDevices": "CDI names in the answers of plugins are ignored",
    "KubeletPodResources": "no program can ask which pod has which device",
    "KubeletPodResourcesGetAllocatable": "no program can ask which devices are healthy",
}
_MANAGERS: Final = (
    ("cpu_manager_state", "cpuManagerPolicy", "cpu-manager-policy"),
    ("memory_manager_state", "memoryManagerPolicy", "memory-manager-policy"),
)
_LOW: Final = {"max_user_instances": 64, "max_user_watches": 4096}
_FULL: Final = 0.1
_BRIM_BYTES: Final = 16 << 20
_FEW_INODES: Final = 0.05
_AHEAD_S: Final = 60
_MOST_NODES: Final = 8
_MIB: Final = 1 << 20


def too_old_for_cdi(evidence: Examined) -> Iterator[Seen]:
    version = _version(evidence)
    users = [each for each in evidence.checkpoint.entries if each.edits and each.edits.cdi_devices]
    if version and version < _CDI_SINCE and users:
        yield Seen(
            f"Plugins answer with CDI names, which kubelet {evidence.kubelet.version} ignores",
            (
                f"{evidence.kubelet.version_from}: {evidence.kubelet.version}",
                f"{evidence.checkpoint.path}: {', '.join(users[0].edits.cdi_devices) if users[0].edits else ''}",
            ),
            pods=tuple(each.pod_uid for each in users),
        )


def gates_off(evidence: Examined) -> Iterator[Seen]:
    written = _mapping(evidence.kubelet.settings.get("featureGates"))
    for name, meaning in _GATES.items():
        if written.get(name) is False:
            yield Seen(f"The gate {name} is off: {meaning}", (f"{evidence.kubelet.settings_path}: {name}: false",))
    for word in evidence.kubelet.arguments:
        for name, meaning in _GATES.items():
            if word.startswith("--feature-gates=") and f"{name}=false" in word:
                yield Seen(f"The gate {name} is off: {meaning}", (f"the kubelet's command line: {word}",))


def other_policy(evidence: Examined) -> Iterator[Seen]:
    kubelet = evidence.kubelet
    if not kubelet.settings_path or option(kubelet.arguments, "config-dir"):  # files there may say otherwise
        return
    for file, setting, flag in _MANAGERS:
        kept = kubelet.managers.get(file, "")
        wanted = str(option(kubelet.arguments, flag) or kubelet.settings.get(setting) or "none")
        if kept and kept.lower() != wanted.lower():
            why = "is damaged" if kept == DAMAGED else "was written under another policy"
            yield Seen(
                f"The kubelet will not start again: {file} {why}",
                (
                    f"{kubelet.root}/{file}: policyName {kept}",
                    f"{kubelet.settings_path}: {setting} {wanted}",
                ),
                remedy=f"Drain the node, stop the kubelet, remove {kubelet.root}/{file}, start the kubelet.",
            )


def cgroup_v1(evidence: Examined) -> Iterator[Seen]:
    version, kubelet = _version(evidence), evidence.kubelet
    if evidence.machine.is_cgroup_v1 and not kubelet.is_ours and kubelet.settings.get("failCgroupV1") is not False:
        if version is not None and version >= _NO_CGROUP_V1:
            yield Seen(
                f"The machine has control groups of version 1, with which kubelet {kubelet.version} does not start",
                ("/sys/fs/cgroup: no cgroup.controllers", f"{kubelet.version_from}: {kubelet.version}"),
            )


def future_files(evidence: Examined) -> Iterator[Seen]:
    now_s = evidence.machine.now_s
    dated = [(evidence.checkpoint.path, evidence.checkpoint.changed_s)]
    sockets = (*evidence.sockets, *evidence.registry_sockets, *filter(None, [evidence.registration]))
    dated += [(each.path, each.changed_s) for each in sockets]
    dated += [(each.path, each.changed_s) for each in evidence.journals]
    ahead = [(path, at - now_s) for path, at in dated if at - now_s > _AHEAD_S]
    if ahead:
        yield Seen(
            f"The clock was set back by at least {max(by for _, by in ahead):.0f} s",
            tuple(f"{path}: made {by:.0f} s in the future" for path, by in ahead[:3]),
        )


def inotify(evidence: Examined) -> Iterator[Seen]:
    machine = evidence.machine
    low = [
        (name, machine.inotify[name], least) for name, least in _LOW.items() if machine.inotify.get(name, least) < least
    ]
    if machine.inotify_problem or low:
        told = (machine.inotify_problem,) if machine.inotify_problem else ()
        limits = tuple(f"/proc/sys/fs/inotify/{name}: {found}" for name, found in machine.inotify.items())
        yield Seen("Programs cannot watch files, so that plugins miss the kubelet's restarts", (*told, *limits))


def full_disk(evidence: Examined) -> Iterator[Seen]:
    for each in evidence.machine.disks:
        if each.is_read_only or not each.size:
            continue
        if each.free < max(_FULL * each.size, _BRIM_BYTES):
            yield Seen(
                f"The file system of {each.path} is nearly full",
                (f"{each.path}: {each.free // _MIB} of {each.size // _MIB} MiB free ({each.free / each.size:.0%})",),
            )
        elif each.inodes and each.free_inodes < _FEW_INODES * each.inodes:
            yield Seen(
                f"The file system of {each.path} has hardly any inodes left",
                (f"{each.path}: {each.free_inodes} of {each.inodes} inodes free",),
            )


def read_only_disk(evidence: Examined) -> Iterator[Seen]:
    for each in evidence.machine.disks:
        if each.is_read_only:
            yield Seen(f"The file system of {each.path} is read-only", (f"{each.path}: mounted read-only",))


def many_nodes(evidence: Examined) -> Iterator[Seen]:
    settings, nodes = evidence.kubelet.settings, evidence.machine.numa_nodes
    policy = str(settings.get("topologyManagerPolicy") or "none")
    options = _mapping(settings.get("topologyManagerPolicyOptions"))
    most = str(options.get("max-allowable-numa-nodes", _MOST_NODES))
    if nodes > (int(most) if most.isdigit() else _MOST_NODES) and policy != "none":
        yield Seen(
            f"The kubelet will not start: {nodes} NUMA nodes, and the policy {policy} takes {most}",
            (
                f"/sys/devices/system/node: {nodes} nodes",
                f"{evidence.kubelet.settings_path}: topologyManagerPolicy {policy}",
            ),
        )


def orphaned_journals(evidence: Examined) -> Iterator[Seen]:
    served = {each.resource for each in (*evidence.sockets, *evidence.registry_sockets) if _serves(each.state)}
    served |= {each.name for each in evidence.resources if each.plugin == "Live"}
    allocatable = evidence.pod_resources.allocatable or {}
    for each in evidence.journals:
        if each.has_uses and each.resource not in served and each.resource not in allocatable:
            yield Seen(
                f"No plugin keeps the journal of {each.resource}, in which devices may still be in use",
                (f"{each.path}: it has uses", f"{evidence.plugins.path}: no plugin of {each.resource} listens"),
                resources=(each.resource,),
            )


def _serves(state: SocketState) -> bool:
    return state in (SocketState.LISTENING, SocketState.FULL, SocketState.CLOSED)


def _version(evidence: Examined) -> tuple[int, int] | None:
    """Major and minor of the kubelet's version."""
    match evidence.kubelet.version.split("."):
        case [major, minor, *_] if major.isdigit() and minor.isdigit():
            return int(major), int(minor)
    return None


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


CHECKS: Final = (
    Check(
        "PBD701",
        FindingSeverity.ERROR,
        "A kubelet too old for CDI",
        "Kubelets hand CDI names of plugins to the engine from 1.29 on (1.28 with a gate). Older ones drop them: "
        "containers start without their devices.",
        "Upgrade the kubelet, or let the plugin answer with device nodes, or with annotations that start with "
        "cdi.k8s.io/.",
        (EvidenceSource.CHECKPOINT,),
        too_old_for_cdi,
    ),
    Check(
        "PBD702",
        FindingSeverity.WARNING,
        "A feature gate is off that devices need",
        "The kubelet's configuration switches a feature off that device plugins, or the programs that watch them, "
        "need.",
        "Remove the gate from featureGates of the kubelet's configuration, and restart the kubelet.",
        (EvidenceSource.SETTINGS,),
        gates_off,
    ),
    Check(
        "PBD703",
        FindingSeverity.ERROR,
        "A resource manager's state of another policy",
        "The policy of the CPU or memory manager was changed, and the state file in the kubelet's root is of the old "
        "one. The kubelet refuses to start with it.",
        "Drain the node, stop the kubelet, remove the file, start the kubelet.",
        (EvidenceSource.SETTINGS,),
        other_policy,
    ),
    Check(
        "PBD704",
        FindingSeverity.ERROR,
        "Control groups of version 1",
        "From 1.35 on a kubelet refuses to start on a machine with control groups of version 1, unless failCgroupV1: "
        "false is in its configuration; device access is limited there by another mechanism, too.",
        "Boot with systemd.unified_cgroup_hierarchy=1, before the kubelet is upgraded.",
        (EvidenceSource.SETTINGS,),
        cgroup_v1,
    ),
    Check(
        "PBD705",
        FindingSeverity.WARNING,
        "The clock was set back",
        "Files of kubelet and plugins are from the future. Grace periods, leases and certificates then end at the "
        "wrong time, and programs that compare times of files take an old socket for a new one.",
        "Keep the clock by chrony or systemd-timesyncd, from before the kubelet starts. Restart plugins that behave "
        "oddly.",
        (EvidenceSource.CHECKPOINT, EvidenceSource.SOCKETS),
        future_files,
    ),
    Check(
        "PBD706",
        FindingSeverity.WARNING,
        "Limits of inotify",
        "Plugins and the kubelet notice by inotify that a socket appears or goes. At the limit of instances or "
        "watches they fail to start, or look only now and then.",
        "sysctl -w fs.inotify.max_user_instances=8192 fs.inotify.max_user_watches=524288, and the same in "
        "/etc/sysctl.d.",
        (EvidenceSource.LIMITS,),
        inotify,
    ),
    Check(
        "PBD707",
        FindingSeverity.WARNING,
        "A file system that is nearly full",
        "At 10 % of free space, or 5 % of free inodes, a kubelet evicts pods and takes no new ones. On a full disk it "
        "cannot write its checkpoint, and pods with devices are refused.",
        "Free space: crictl rmi --prune, journalctl --vacuum-size=500M, old logs below /var/log.",
        (EvidenceSource.DISKS,),
        full_disk,
    ),
    Check(
        "PBD708",
        FindingSeverity.ERROR,
        "A file system that is read-only",
        "The kernel has made it read-only after an error of the disk, or it was mounted so. The kubelet can write no "
        "checkpoint, so that no pod gets devices.",
        "dmesg names the error. Check the disk (fsck, smartctl), then mount it again.",
        (EvidenceSource.DISKS,),
        read_only_disk,
    ),
    Check(
        "PBD709",
        FindingSeverity.ERROR,
        "More NUMA nodes than the topology policy takes",
        "With a topology policy other than none, a kubelet starts on at most 8 NUMA nodes, or as many as "
        "max-allowable-numa-nodes says: the combinations to compare double with each.",
        "Set topologyManagerPolicyOptions: {max-allowable-numa-nodes: ...}, from kubelet 1.31 on, or the policy none.",
        (EvidenceSource.SETTINGS,),
        many_nodes,
    ),
    Check(
        "PBD710",
        FindingSeverity.WARNING,
        "A journal that no plugin keeps",
        "A plugin of plugbay writes down which devices are in use, so that each is released once. It was stopped or "
        "removed while containers had its devices, so that those are not released.",
        "Start the plugin again; it releases what is over. If it is gone for good, and no container has its devices, "
        "remove the journal.",
        (EvidenceSource.JOURNALS, EvidenceSource.SOCKETS),
        orphaned_journals,
    ),
)
