"""Messages of CRI to values and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from plugbay.model.cri import (
    ContainerConfig,
    ContainerPhase,
    ContainerSecurity,
    ContainerStatus,
    EngineStatus,
    Image,
    LinuxResources,
    ListedContainer,
    NamespaceMode,
    NamespaceModes,
    Sandbox,
    SandboxConfig,
    SandboxState,
    SandboxStatus,
)
from plugbay.model.ports import Protocol
from plugbay.model.security import Seccomp
from plugbay.wire.generated import cri_v1_pb2 as v1

_PROTOCOLS: Final = {Protocol.TCP: v1.TCP, Protocol.UDP: v1.UDP, Protocol.SCTP: v1.SCTP}
_MODES: Final = {
    NamespaceMode.POD: v1.POD,
    NamespaceMode.CONTAINER: v1.CONTAINER,
    NamespaceMode.NODE: v1.NODE,
}
_SANDBOX_STATES: Final = {
    v1.SANDBOX_READY: SandboxState.READY,
    v1.SANDBOX_NOTREADY: SandboxState.NOT_READY,
}
_PHASES: Final = {
    v1.CONTAINER_CREATED: ContainerPhase.CREATED,
    v1.CONTAINER_RUNNING: ContainerPhase.RUNNING,
    v1.CONTAINER_EXITED: ContainerPhase.EXITED,
}
_SECCOMP: Final = {
    Seccomp.UNCONFINED: v1.SecurityProfile.Unconfined,
    Seccomp.RUNTIME_DEFAULT: v1.SecurityProfile.RuntimeDefault,
}
_NS: Final = 1_000_000_000


# --- sandboxes ------------------------------------------------------------------------------------------------------


def sandbox_to_v1(config: SandboxConfig) -> v1.PodSandboxConfig:
    return v1.PodSandboxConfig(
        metadata=v1.PodSandboxMetadata(
            name=config.name, uid=config.uid, namespace=config.namespace, attempt=config.attempt
        ),
        hostname=config.hostname,
        log_directory=config.log_directory,
        dns_config=None
        if config.dns is None
        else v1.DNSConfig(servers=config.dns.servers, searches=config.dns.searches, options=config.dns.options),
        port_mappings=[
            v1.PortMapping(
                protocol=_PROTOCOLS[port.protocol],
                container_port=port.container_port,
                host_port=port.host_port,
                host_ip=port.host_ip,
            )
            for port in config.ports
        ],
        labels=config.labels,
        annotations=config.annotations,
        linux=v1.LinuxPodSandboxConfig(
            cgroup_parent=config.cgroup_parent,
            sysctls=config.sysctls,
            overhead=v1.LinuxContainerResources(),
            resources=_resources(config.resources),
            security_context=v1.LinuxSandboxSecurityContext(
                namespace_options=_namespaces(config.namespaces),
                run_as_user=_optional(config.run_as_user),
                # An engine refuses a group without a user.
                run_as_group=None if config.run_as_user is None else _optional(config.run_as_group),
                supplemental_groups=config.supplemental_groups,
                privileged=config.privileged,
                seccomp=v1.SecurityProfile(profile_type=v1.SecurityProfile.RuntimeDefault),
            ),
        ),
    )


def sandbox_from_v1(item: v1.PodSandbox) -> Sandbox:
    return Sandbox(
        item.id,
        item.metadata.uid,
        item.metadata.attempt,
        _SANDBOX_STATES.get(item.state, SandboxState.NOT_READY),
        item.created_at,
        dict(item.labels),
    )


def sandbox_status_from_v1(status: v1.PodSandboxStatus, *, mode: NamespaceMode) -> SandboxStatus:
    addresses = (status.network.ip, *(each.ip for each in status.network.additional_ips))
    ips = tuple(each for each in addresses if each) if mode is NamespaceMode.POD else ()
    return SandboxStatus(status.id, _SANDBOX_STATES.get(status.state, SandboxState.NOT_READY), mode, ips)


# --- containers -----------------------------------------------------------------------------------------------------


def container_to_v1(config: ContainerConfig) -> v1.ContainerConfig:
    return v1.ContainerConfig(
        metadata=v1.ContainerMetadata(name=config.name, attempt=config.attempt),
        image=v1.ImageSpec(image=config.image, user_specified_image=config.asked_image),
        command=config.command,
        args=config.args,
        working_dir=config.working_dir,
        envs=[v1.KeyValue(key=name, value=value.encode(errors="surrogateescape")) for name, value in config.env],
        mounts=[
            v1.Mount(container_path=each.container_path, host_path=each.host_path, readonly=each.read_only)
            for each in config.mounts
        ],
        devices=[
            v1.Device(container_path=each.container_path, host_path=each.host_path, permissions=each.permissions)
            for each in config.devices
        ],
        labels=config.labels,
        annotations=config.annotations,
        log_path=config.log_path,
        stdin=config.stdin,
        stdin_once=config.stdin_once,
        tty=config.tty,
        linux=v1.LinuxContainerConfig(
            resources=_resources(config.resources), security_context=_security(config.security)
        ),
        CDI_devices=[v1.CDIDevice(name=name) for name in config.cdi_devices],
    )


def listed_from_v1(item: v1.Container) -> ListedContainer:
    return ListedContainer(
        item.id,
        item.pod_sandbox_id,
        item.metadata.name,
        item.metadata.attempt,
        _PHASES.get(item.state, ContainerPhase.UNKNOWN),
        item.created_at,
        dict(item.labels),
    )


def status_from_v1(status: v1.ContainerStatus, *, info: Mapping[str, str]) -> ContainerStatus:
    """The status of a container; ``info`` is what the engine adds when asked for everything."""
    return ContainerStatus(
        id=status.id,
        name=status.metadata.name,
        attempt=status.metadata.attempt,
        phase=_PHASES.get(status.state, ContainerPhase.UNKNOWN),
        created_at=_moment(status.created_at),
        started_at=_moment(status.started_at) if status.started_at else None,
        finished_at=_moment(status.finished_at) if status.finished_at else None,
        exit_code=status.exit_code,
        reason=status.reason,
        message=status.message,
        labels=dict(status.labels),
        log_path=status.log_path,
        pid=_pid(info.get("info", "")),
        annotations=dict(status.annotations),
        mounts={each.container_path: each.host_path for each in status.mounts},
        image_ref=status.image_ref,
    )


def _pid(info: str) -> int | None:
    """The process in the engine's JSON; containerd and CRI-O both have the member ``pid``, 0 when nothing runs."""
    try:
        pid = json.loads(info).get("pid")
    except (ValueError, AttributeError):
        return None
    return pid if isinstance(pid, int) and pid > 0 else None


def _security(security: ContainerSecurity) -> v1.LinuxContainerSecurityContext:
    return v1.LinuxContainerSecurityContext(
        capabilities=v1.Capability(
            add_capabilities=security.added_capabilities, drop_capabilities=security.dropped_capabilities
        ),
        privileged=security.privileged,
        namespace_options=_namespaces(security.namespaces),
        run_as_user=_optional(security.run_as_user),
        run_as_group=None if security.run_as_user is None else _optional(security.run_as_group),
        readonly_rootfs=security.read_only_root,
        supplemental_groups=security.supplemental_groups,
        no_new_privs=security.no_new_privileges,
        masked_paths=security.masked_paths,
        readonly_paths=security.read_only_paths,
        seccomp=v1.SecurityProfile(profile_type=_SECCOMP[security.seccomp]),
    )


def _namespaces(modes: NamespaceModes) -> v1.NamespaceOption:
    return v1.NamespaceOption(network=_MODES[modes.network], pid=_MODES[modes.pid], ipc=_MODES[modes.ipc])


def _resources(resources: LinuxResources) -> v1.LinuxContainerResources:
    return v1.LinuxContainerResources(
        cpu_period=resources.cpu_period,
        cpu_quota=resources.cpu_quota,
        cpu_shares=resources.cpu_shares,
        memory_limit_in_bytes=resources.memory_limit,
        oom_score_adj=resources.oom_score_adj,
    )


# --- images and the engine ------------------------------------------------------------------------------------------


def image_from_v1(image: v1.Image) -> Image:
    return Image(image.id, image.uid.value if image.HasField("uid") else None, image.username, image.size)


def engine_status_from_v1(answer: v1.StatusResponse) -> EngineStatus:
    problems = {
        each.type: each.message or each.reason or "it does not say why"
        for each in answer.status.conditions
        if not each.status
    }
    return EngineStatus(problems, answer.info.get("config", ""))


def _optional(value: int | None) -> v1.Int64Value | None:
    return None if value is None else v1.Int64Value(value=value)


def _moment(nanoseconds: int) -> datetime:
    seconds, rest = divmod(nanoseconds, _NS)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)
