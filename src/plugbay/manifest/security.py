"""Security contexts between v1 and our value, and what an API server checks of them.

Source: Kubernetes 1.36 ``pkg/apis/core/validation/validation.go``, ``ValidateSecurityContext``.
"""

from __future__ import annotations

from typing import Final, TypedDict

from plugbay.manifest.report import ManifestReport
from plugbay.manifest.resource_checks import invalid
from plugbay.manifest.surroundings import V1Sysctl
from plugbay.model.field_path import FieldPath
from plugbay.model.security import Seccomp, Security

MAX_ID: Final = 2**31 - 1


class V1Capabilities(TypedDict, total=False):
    add: list[str]
    drop: list[str]


class V1SeccompProfile(TypedDict, total=False):
    type: str


class V1Security(TypedDict, total=False):
    """The security contexts of a container and of a pod: each has fields that the other has not."""

    runAsUser: int
    runAsGroup: int
    runAsNonRoot: bool
    supplementalGroups: list[int]
    fsGroup: int
    seccompProfile: V1SeccompProfile
    sysctls: list[V1Sysctl]
    privileged: bool
    capabilities: V1Capabilities
    readOnlyRootFilesystem: bool
    allowPrivilegeEscalation: bool


def security_of(v1: V1Security) -> Security:
    capabilities = v1.get("capabilities", {})
    seccomp = v1.get("seccompProfile", {}).get("type")
    return Security(
        run_as_user=v1.get("runAsUser"),
        run_as_group=v1.get("runAsGroup"),
        run_as_non_root=v1.get("runAsNonRoot"),
        supplemental_groups=tuple(v1.get("supplementalGroups", [])),
        privileged=v1.get("privileged"),
        added_capabilities=tuple(_bare(each) for each in capabilities.get("add", [])),
        dropped_capabilities=tuple(_bare(each) for each in capabilities.get("drop", [])),
        read_only_root=v1.get("readOnlyRootFilesystem"),
        allow_privilege_escalation=v1.get("allowPrivilegeEscalation"),
        fs_group=v1.get("fsGroup"),
        seccomp=Seccomp(seccomp) if seccomp else None,
    )


def security_to_v1(security: Security) -> dict[str, object]:
    """Write a security context as v1 does: without the fields that were not given."""
    capabilities = {
        key: list(names)
        for key, names in (("add", security.added_capabilities), ("drop", security.dropped_capabilities))
        if names
    }
    fields: dict[str, object] = {
        "runAsUser": security.run_as_user,
        "runAsGroup": security.run_as_group,
        "runAsNonRoot": security.run_as_non_root,
        "supplementalGroups": list(security.supplemental_groups) or None,
        "privileged": security.privileged,
        "capabilities": capabilities or None,
        "readOnlyRootFilesystem": security.read_only_root,
        "allowPrivilegeEscalation": security.allow_privilege_escalation,
        "fsGroup": security.fs_group,
        "seccompProfile": {"type": security.seccomp.value} if security.seccomp else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def check_security(security: Security, path: FieldPath, report: ManifestReport) -> None:
    """Report what an API server would refuse."""
    ids = {"runAsUser": security.run_as_user, "runAsGroup": security.run_as_group, "fsGroup": security.fs_group}
    for name, number in ids.items():
        _check_id(number, (*path, name), report)
    for index, group in enumerate(security.supplemental_groups):
        _check_id(group, (*path, "supplementalGroups", index), report)
    if security.forbids_escalation:
        field = (*path, "allowPrivilegeEscalation")
        if security.privileged:
            problem = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            report.problem(field, invalid(False, problem))
        elif "SYS_ADMIN" in security.added_capabilities:
            problem = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            report.problem(field, invalid(False, problem))


def _check_id(number: int | None, path: FieldPath, report: ManifestReport) -> None:
    if number is not None and not 0 <= number <= MAX_ID:
        report.problem(path, invalid(number, f"must be between 0 and {MAX_ID}, inclusive"))


def _bare(capability: str) -> str:
    """Engines take either spelling."""
    return capability.upper().removeprefix("CAP_")
