"""The descriptions of sandboxes and containers for an engine, filled in as by a kubelet. Pure.

Source: kubelet 1.36 ``kuberuntime_sandbox.go``, ``kuberuntime_container.go``, ``labels.go``, ``security_context.go``,
``qos/policy.go``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeVar

from plugbay.cdi.convert import NOTHING, Spelled
from plugbay.documents.go_json import compact
from plugbay.kubelet.fnv import fnv1a
from plugbay.manifest.ports import ports_to_v1
from plugbay.manifest.v1 import hook_to_v1
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
from plugbay.model.limits import PERIOD_US, CgroupLimits, memory_request
from plugbay.model.qos import QosClass, qos_class
from plugbay.model.resolution import DnsConfig, pod_dns
from plugbay.model.security import MASKED_PATHS, READ_ONLY_PATHS, Seccomp, all_groups
from plugbay.runtimes.hosts import hostname
from plugbay.runtimes.port import ContainerSpec
from plugbay.runtimes.sandboxes import HostNamespace, Network, SandboxSpec
from plugbay.values import dataclass

POD_NAME: Final = "io.kubernetes.pod.name"
POD_NAMESPACE: Final = "io.kubernetes.pod.namespace"
POD_UID: Final = "io.kubernetes.pod.uid"
CONTAINER_NAME: Final = "io.kubernetes.container.name"
MESSAGE_PATH: Final = "io.kubernetes.container.terminationMessagePath"
MESSAGE_POLICY: Final = "io.kubernetes.container.terminationMessagePolicy"
NODE: Final = "io.plugbay.node"
"""Our label, which names the node of a pod: one engine may serve several nodes, and each clears its own pods only."""

_ETC_HOSTS: Final = "/etc/hosts"

_Placed = TypeVar("_Placed", Mount, DeviceNode)


@dataclass(frozen=True, slots=True)
class Conventions:
    """The settings that are the same for all pods of a node.

    Attributes:
        node: identifies the node among those that use the engine.
        log_root: pods' log directories lie below it; absolute.
        pods_root: files made for a pod lie below it, in a directory named by its UID, and go with it.
        cgroup_prefix: begins the names of pods' control groups; it holds letters, digits and hyphens only.
        memory_bytes: the memory of the machine.
        dns: the content of the host's ``resolv.conf``.
        hosts: the content of the host's ``/etc/hosts``, for pods on its network.
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
        name=spec.pod.name,
        uid=spec.pod.uid,
        namespace=spec.pod.namespace,
        attempt=attempt,
        hostname="" if on_host else hostname(spec.pod.spec.hostname or spec.pod.name),
        log_directory=f"{conventions.log_root}/{log_directory_name(spec.pod.namespace, spec.pod.name, spec.pod.uid)}",
        cgroup_parent=cgroup_parent(conventions, spec.pod.uid),
        dns=pod_dns(spec.pod.spec.dns_policy, spec.pod.spec.dns, host=conventions.dns),
        ports=spec.ports,
        labels={
            **spec.pod.labels,
            **_pod_labels(spec.pod.namespace, spec.pod.name, spec.pod.uid),
            NODE: conventions.node,
        },
        annotations=spec.pod.annotations,
        namespaces=_namespaces(spec),
        privileged=spec.privileged,
        run_as_user=spec.pod.spec.security.run_as_user,
        run_as_group=spec.pod.spec.security.run_as_group,
        supplemental_groups=all_groups(spec.pod.spec.security),
        sysctls=spec.pod.spec.sysctls,
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
        name=spec.container.name,
        attempt=spec.attempt,
        image=image,
        asked_image=spec.container.image,
        command=spec.command,
        args=spec.argv[words:],
        working_dir=spec.container.working_dir or "",
        env=(*edits.env.items(), *spec.env.items(), *last.env.items()),
        mounts=_with_files(
            _without(edits.mounts + spec.mounts, last.mounts) + last.mounts,
            {_ETC_HOSTS: hosts, spec.message.path: message_file},
        ),
        devices=_without(edits.device_nodes, last.device_nodes) + last.device_nodes,
        cdi_devices=edits.cdi_devices,
        labels=container_labels(spec.pod.uid, spec.container.name)
        | {POD_NAME: spec.pod.name, POD_NAMESPACE: spec.pod.namespace, NODE: conventions.node},
        annotations={**edits.annotations, **_annotations(spec)},
        log_path=f"{spec.container.name}/{spec.attempt}.log",
        stdin=spec.container.stdin,
        stdin_once=spec.container.stdin_once,
        tty=spec.container.tty,
        resources=replace(
            _resources(spec.limits),
            oom_score_adj=oom_score_adj(qos_class(spec.pod), memory_request(spec.container), conventions.memory_bytes),
        ),
        security=_security(spec, sandbox, more_groups=cdi.groups),
    )


def container_labels(pod: PodUid, container: ContainerName) -> dict[str, str]:
    """The labels by which a container's instances are found."""
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


def oom_score_adj(qos: QosClass, memory_request: int, memory_bytes: int) -> int:
    """The kernel's score for killing a container when memory runs out: pods that asked for little go first."""
    if qos is QosClass.GUARANTEED:
        return -997
    if qos is QosClass.BEST_EFFORT or memory_bytes <= 0:
        return 1000
    return min(max(1000 - 1000 * memory_request // memory_bytes, 3), 999)


def _namespaces(spec: SandboxSpec) -> NamespaceModes:
    own_pid = NamespaceMode.POD if spec.shares_processes else NamespaceMode.CONTAINER
    return NamespaceModes(
        network=NamespaceMode.NODE if spec.network is Network.HOST else NamespaceMode.POD,
        pid=NamespaceMode.NODE if HostNamespace.PID in spec.host_namespaces else own_pid,
        ipc=NamespaceMode.NODE if HostNamespace.IPC in spec.host_namespaces else NamespaceMode.POD,
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


def _security(spec: ContainerSpec, sandbox: SandboxConfig, *, more_groups: tuple[int, ...]) -> ContainerSecurity:
    security = spec.container.security
    return ContainerSecurity(
        privileged=bool(security.privileged),
        namespaces=sandbox.namespaces,
        added_capabilities=security.added_capabilities,
        dropped_capabilities=security.dropped_capabilities,
        run_as_user=security.run_as_user,
        run_as_group=security.run_as_group,
        supplemental_groups=tuple(dict.fromkeys(security.supplemental_groups + more_groups)),
        read_only_root=bool(security.read_only_root),
        no_new_privileges=security.forbids_escalation,
        seccomp=security.seccomp or Seccomp.UNCONFINED,
        masked_paths=MASKED_PATHS,
        read_only_paths=READ_ONLY_PATHS,
    )


def _annotations(spec: ContainerSpec) -> Mapping[str, str]:
    """All that a kubelet writes but ``deletionGracePeriod``: no container starts in a pod that is being deleted."""
    pre_stop, ports = spec.container.pre_stop, spec.container.ports
    return {
        "io.kubernetes.container.hash": f"{_fingerprint(spec):x}",
        "io.kubernetes.container.restartCount": str(spec.attempt),
        MESSAGE_PATH: spec.message.path,
        MESSAGE_POLICY: spec.message.policy.value,
        "io.kubernetes.pod.terminationGracePeriod": str(spec.pod.spec.termination_grace_period_s),
        **({"io.kubernetes.container.preStopHandler": compact(hook_to_v1(pre_stop))} if pre_stop else {}),
        **({"io.kubernetes.container.ports": compact(ports_to_v1(ports))} if ports else {}),
    }


def _fingerprint(spec: ContainerSpec) -> int:
    """A hash that changes with the manifest's part about the container, for clients that compare it."""
    said = [spec.container.name, spec.container.image, spec.argv, sorted(spec.env.items())]
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
