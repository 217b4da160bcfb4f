"""What an engine is told of sandboxes and containers, filled in as a kubelet does: pure.

Source: kubelet 1.36 ``kuberuntime_sandbox.go``, ``kuberuntime_container.go``, ``labels.go``, ``security_context.go``,
``qos/policy.go``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from plugbay.cdi.convert import NOTHING, Spelled
from plugbay.kubelet.fnv import fnv1a
from plugbay.kubelet.go_json import compact
from plugbay.model.cri import (
    CgroupDriver,
    ContainerConfig,
    ContainerSecurity,
    LinuxResources,
    NamespaceMode,
    NamespaceModes,
    SandboxConfig,
)
from plugbay.model.edits import DeviceNode, Mount
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.limits import PERIOD_US, CgroupLimits
from plugbay.model.resolution import DnsConfig, pod_dns
from plugbay.model.security import MASKED_PATHS, READ_ONLY_PATHS, Seccomp, all_groups
from plugbay.node.manifest.ports import ports_to_v1
from plugbay.node.runtimes.hosts import hostname
from plugbay.node.runtimes.port import ContainerSpec
from plugbay.node.runtimes.sandboxes import Network, SandboxSpec

POD_NAME: Final = "io.kubernetes.pod.name"
POD_NAMESPACE: Final = "io.kubernetes.pod.namespace"
POD_UID: Final = "io.kubernetes.pod.uid"
CONTAINER_NAME: Final = "io.kubernetes.container.name"
MESSAGE_PATH: Final = "io.kubernetes.container.terminationMessagePath"
MESSAGE_POLICY: Final = "io.kubernetes.container.terminationMessagePolicy"
NODE: Final = "io.plugbay.node"
"""Our label: which node's it is. One engine may serve several nodes, and must not be cleared of others' pods."""

_ETC_HOSTS: Final = "/etc/hosts"

_Placed = TypeVar("_Placed", Mount, DeviceNode)


@dataclass(frozen=True, slots=True)
class Conventions:
    """What is the same for all pods of a node.

    Attributes:
        node: identifies the node among those that use the engine.
        log_root: pods' log directories lie below it; absolute.
        pods_root: files made for a pod lie below it, in a directory named by its UID, and go with it.
        cgroup_prefix: begins the names of pods' control groups; no word in it but letters, digits and hyphens.
        memory_bytes: of the machine.
        dns: what the host's ``resolv.conf`` says.
        hosts: what the host's ``/etc/hosts`` says, for pods on its network.
    """

    node: str
    log_root: str
    pods_root: str
    cgroup_prefix: str
    cgroup_driver: CgroupDriver
    memory_bytes: int
    dns: DnsConfig | None = None
    hosts: str = ""


def sandbox_config(spec: SandboxSpec, conventions: Conventions, *, attempt: int) -> SandboxConfig:
    """``attempt`` is 0 for a pod's first sandbox."""
    on_host = spec.network is Network.HOST
    return SandboxConfig(
        name=spec.pod,
        uid=spec.pod_uid,
        namespace=spec.namespace,
        attempt=attempt,
        hostname="" if on_host else hostname(spec.hostname or spec.pod),
        log_directory=f"{conventions.log_root}/{log_directory_name(spec.namespace, spec.pod, spec.pod_uid)}",
        cgroup_parent=cgroup_parent(conventions, spec.pod_uid),
        dns=pod_dns(spec.dns_policy, spec.dns, host=conventions.dns),
        ports=spec.ports,
        labels={**spec.labels, **_pod_labels(spec.namespace, spec.pod, spec.pod_uid), NODE: conventions.node},
        annotations=spec.annotations,
        namespaces=_namespaces(spec),
        privileged=spec.privileged,
        run_as_user=spec.security.run_as_user,
        run_as_group=spec.security.run_as_group,
        supplemental_groups=all_groups(spec.security),
        sysctls=spec.sysctls,
        resources=_resources(spec.limits),
    )


def container_config(
    spec: ContainerSpec,
    conventions: Conventions,
    *,
    image: str,
    sandbox: SandboxConfig,
    cdi: Spelled = NOTHING,
    hosts: str = "",
    message_file: str = "",
) -> ContainerConfig:
    """One container of the pod in ``sandbox``.

    Args:
        image: the ID of the image.
        hosts: the file that becomes its ``/etc/hosts``, unless the pod mounts one itself; empty is the engine's.
        message_file: the file for its termination message, unless the pod mounts one itself; empty is none.
        cdi: what CDI devices come to where the engine does not know them; as in CDI, it comes last and wins.
    """
    words = len(spec.command)
    edits, last = spec.edits, cdi.edits
    return ContainerConfig(
        name=spec.name,
        attempt=spec.attempt,
        image=image,
        asked_image=spec.image,
        command=spec.command,
        args=spec.argv[words:],
        working_dir=spec.working_dir or "",
        env=(*edits.env.items(), *spec.env.items(), *last.env.items()),
        mounts=_with_files(
            _without(edits.mounts + spec.mounts, last.mounts) + last.mounts,
            {_ETC_HOSTS: hosts, spec.message.path: message_file},
        ),
        devices=_without(edits.device_nodes, last.device_nodes) + last.device_nodes,
        cdi_devices=edits.cdi_devices,
        labels=container_labels(spec.pod_uid, spec.name)
        | {POD_NAME: spec.pod, POD_NAMESPACE: spec.namespace, NODE: conventions.node},
        annotations={**edits.annotations, **_annotations(spec)},
        log_path=f"{spec.name}/{spec.attempt}.log",
        resources=replace(
            _resources(spec.limits),
            oom_score_adj=oom_score_adj(spec.qos, spec.memory_request, conventions.memory_bytes),
        ),
        security=ContainerSecurity(
            privileged=bool(spec.security.privileged),
            namespaces=sandbox.namespaces,
            added_capabilities=spec.security.added_capabilities,
            dropped_capabilities=spec.security.dropped_capabilities,
            run_as_user=spec.security.run_as_user,
            run_as_group=spec.security.run_as_group,
            supplemental_groups=tuple(dict.fromkeys(spec.security.supplemental_groups + cdi.groups)),
            read_only_root=bool(spec.security.read_only_root),
            no_new_privileges=spec.security.forbids_escalation,
            seccomp=spec.security.seccomp or Seccomp.UNCONFINED,
            masked_paths=MASKED_PATHS,
            read_only_paths=READ_ONLY_PATHS,
        ),
    )


def container_labels(pod: PodUid, container: ContainerName) -> dict[str, str]:
    """By which a container's instances are found."""
    return {POD_UID: pod, CONTAINER_NAME: container}


def cgroup_name(conventions: Conventions, pod: PodUid) -> str:
    """The name of a pod's control group, right below the root of each hierarchy: pods share no directory."""
    return f"{conventions.cgroup_prefix}-{pod}"


def cgroup_parent(conventions: Conventions, pod: PodUid) -> str:
    """The same as an engine wants it: a path, or with systemd a slice, in whose name hyphens are levels."""
    name = cgroup_name(conventions, pod)
    if conventions.cgroup_driver is CgroupDriver.CGROUPFS:
        return f"/{name}"
    return f"{conventions.cgroup_prefix.replace('-', '_')}-pod{pod.replace('-', '_')}.slice"


def log_directory_name(namespace: str, pod: str, uid: str) -> str:
    return f"{namespace}_{pod}_{uid}"


def oom_score_adj(qos: str, memory_request: int, memory_bytes: int) -> int:
    """How readily the kernel kills a container when memory runs out: pods that asked for little go first."""
    if qos == "Guaranteed":
        return -997
    if qos == "BestEffort" or memory_bytes <= 0:
        return 1000
    return min(max(1000 - 1000 * memory_request // memory_bytes, 3), 999)


def parse_resolv_conf(text: str) -> DnsConfig:
    """The host's ``resolv.conf`` as a kubelet reads it: three servers, the last ``search`` line, the last option
    of each name."""
    servers: list[str] = []
    searches: list[str] = []
    options: dict[str, str] = {}
    for line in text.splitlines():
        words = line.split()
        if not words or words[0][0] in "#;":
            continue
        match words[0], words[1:]:
            case "nameserver", [server, *_]:
                servers.append(server)
            case "search", names:
                searches = [name.rstrip(".") or name for name in names]
            case "options", given:
                options |= {each.partition(":")[0]: each for each in given}
    return DnsConfig(tuple(servers[:3]), tuple(searches), tuple(options.values()))


def _namespaces(spec: SandboxSpec) -> NamespaceModes:
    return NamespaceModes(
        network=NamespaceMode.NODE if spec.network is Network.HOST else NamespaceMode.POD,
        pid=NamespaceMode.NODE
        if "hostPID" in spec.shared
        else NamespaceMode.POD
        if "shareProcessNamespace" in spec.shared
        else NamespaceMode.CONTAINER,
        ipc=NamespaceMode.NODE if "hostIPC" in spec.shared else NamespaceMode.POD,
    )


def _pod_labels(namespace: str, pod: str, uid: str) -> dict[str, str]:
    return {POD_NAME: pod, POD_NAMESPACE: namespace, POD_UID: uid}


def _resources(limits: CgroupLimits) -> LinuxResources:
    return LinuxResources(
        cpu_period=PERIOD_US,
        cpu_quota=limits.cpu_quota_us,
        cpu_shares=limits.cpu_shares,
        memory_limit=limits.memory_bytes,
    )


def _annotations(spec: ContainerSpec) -> Mapping[str, str]:
    """All that a kubelet writes but ``deletionGracePeriod``: no container starts in a pod that is being deleted."""
    return {
        "io.kubernetes.container.hash": f"{_fingerprint(spec):x}",
        "io.kubernetes.container.restartCount": str(spec.attempt),
        MESSAGE_PATH: spec.message.path,
        MESSAGE_POLICY: spec.message.policy.value,
        "io.kubernetes.pod.terminationGracePeriod": str(spec.grace_period_s),
        **({"io.kubernetes.container.preStopHandler": spec.pre_stop} if spec.pre_stop else {}),
        **({"io.kubernetes.container.ports": compact(ports_to_v1(spec.ports))} if spec.ports else {}),
    }


def _fingerprint(spec: ContainerSpec) -> int:
    """Changes with what the manifest says of the container; only for those who compare."""
    said = [spec.name, spec.image, spec.argv, sorted(spec.env.items())]
    return fnv1a(json.dumps(said, separators=(",", ":")).encode())


def _with_files(mounts: tuple[Mount, ...], files: Mapping[str, str]) -> tuple[Mount, ...]:
    """``files``: by their path in the container, those that there are; a mount of the pod's goes before."""
    taken = {each.container_path for each in mounts}
    return mounts + tuple(
        Mount(file, container_path=path) for path, file in files.items() if file and path not in taken
    )


def _without(placed: tuple[_Placed, ...], stronger: tuple[_Placed, ...]) -> tuple[_Placed, ...]:
    taken = {each.container_path for each in stronger}
    return tuple(each for each in placed if each.container_path not in taken)
