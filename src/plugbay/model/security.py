"""The rights of containers, from v1's security contexts. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final

from plugbay.values import dataclass

MASKED_PATHS: Final = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
"""Paths that are hidden from a container that is not privileged, in a kubelet's order."""
READ_ONLY_PATHS: Final = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
"""Paths that such a container can read but not write."""


class Seccomp(Enum):
    """The filter for a container's system calls."""

    UNCONFINED = "Unconfined"
    RUNTIME_DEFAULT = "RuntimeDefault"
    """The engine's default filter."""


@dataclass(frozen=True, slots=True)
class Security:
    """The part of a ``securityContext`` that engines get: a container's, a pod's, or both merged.

    Attributes:
        run_as_user, run_as_group: None if the manifest does not set it: without an image that means root.
        run_as_non_root: whether a container that would be root must not start.
        supplemental_groups: for pods only.
        fs_group: for pods only: a supplemental group that also owns the pod's emptyDir volumes.
        seccomp: None if the manifest does not set it, which means unconfined.
        added_capabilities: without ``CAP_``; may hold ``ALL``.
        read_only_root: whether the root file system must not be writable.
        allow_privilege_escalation: whether processes may gain rights, for instance by set-user-ID programs.
    """

    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    supplemental_groups: tuple[int, ...] = ()
    privileged: bool | None = None
    added_capabilities: tuple[str, ...] = ()
    dropped_capabilities: tuple[str, ...] = ()
    read_only_root: bool | None = None
    allow_privilege_escalation: bool | None = None
    fs_group: int | None = None
    seccomp: Seccomp | None = None

    @property
    def forbids_escalation(self) -> bool:
        return self.allow_privilege_escalation is False

    def restrictions(self) -> Iterator[str]:
        """The fields that restrict a container, which only an engine can enforce."""
        if self.run_as_user is not None:
            yield "runAsUser"
        if self.run_as_group is not None:
            yield "runAsGroup"
        if self.run_as_non_root:
            yield "runAsNonRoot"
        if self.fs_group is not None:
            yield "fsGroup"
        elif self.supplemental_groups:
            yield "supplementalGroups"
        if self.dropped_capabilities:
            yield "capabilities.drop"
        if self.read_only_root:
            yield "readOnlyRootFilesystem"
        if self.forbids_escalation:
            yield "allowPrivilegeEscalation"


DEFAULT_SECURITY: Final = Security()


def effective_security(*, pod: Security, container: Security) -> Security:
    """Merge the context of a container with that of its pod; the container's fields win."""

    def own(of_container: int | None, of_pod: int | None) -> int | None:
        return of_pod if of_container is None else of_container

    return Security(
        run_as_user=own(container.run_as_user, pod.run_as_user),
        run_as_group=own(container.run_as_group, pod.run_as_group),
        run_as_non_root=pod.run_as_non_root if container.run_as_non_root is None else container.run_as_non_root,
        supplemental_groups=all_groups(pod),
        fs_group=pod.fs_group,
        seccomp=container.seccomp or pod.seccomp,
        privileged=container.privileged,
        added_capabilities=container.added_capabilities,
        dropped_capabilities=container.dropped_capabilities,
        read_only_root=container.read_only_root,
        allow_privilege_escalation=container.allow_privilege_escalation,
    )


def all_groups(pod: Security) -> tuple[int, ...]:
    """The supplemental groups of a pod's containers.

    Source: kubelet 1.36 ``kuberuntime/security_context.go``, ``convertToRuntimeSecurityContext``.
    """
    own = () if pod.fs_group is None else (pod.fs_group,)
    return tuple(dict.fromkeys(own + pod.supplemental_groups))


def non_root_violation(security: Security) -> str:
    """The reason why a container that must not be root would be root; empty if there is no conflict.

    Source: kubelet 1.36 ``kuberuntime/security_context.go``, ``verifyRunAsNonRoot``.
    """
    if not security.run_as_non_root or security.run_as_user:
        return ""
    if security.run_as_user == 0:
        return "container's runAsUser breaks non-root policy"
    return "container has runAsNonRoot and image will run as root"
