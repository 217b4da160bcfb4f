"""The API server's checks of hooks, of probes, and of values taken from the pod's fields.

They look at the v1 object: a value cannot say that two things were asked for at once.

Source: Kubernetes 1.36 ``pkg/apis/core/validation/validation.go``, ``validateLifecycle``, ``validateEnvVarValueFrom``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plugbay.manifest.actions import V1Action, check_action
from plugbay.manifest.probes import check_probes
from plugbay.manifest.projection_checks import check_env_from, check_key, check_object_name, check_resource
from plugbay.manifest.projections import V1KeyRef
from plugbay.manifest.report import ManifestReport
from plugbay.manifest.v1_types import V1Container, V1EnvVar, V1Spec
from plugbay.model.downward import FIELD_PATHS, is_field_path
from plugbay.model.field_path import FieldPath
from plugbay.model.pods import DEFAULT_GRACE_PERIOD_S

_HOOKS: Final = ("postStart", "preStop")
_NO_HOOKS: Final = "Forbidden: may not be set for init containers without restartPolicy=Always"
_SOURCES: Final = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
_FIELDS: Final = ", ".join(f'"{path}"' for path in FIELD_PATHS)


def check_lifecycles(spec: V1Spec, report: ManifestReport) -> None:
    """Report what an API server would refuse in the hooks, probes and field references of all containers."""
    grace_s = spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE_PERIOD_S)
    for index, container in enumerate(spec.get("initContainers", [])):
        path = ("spec", "initContainers", index)
        _check_env(container, path, report)
        is_sidecar = "restartPolicy" in container
        if is_sidecar:
            _check_hooks(container, path, report, grace_s=grace_s)
        elif "lifecycle" in container and report.is_sound((*path, "restartPolicy")):
            report.problem((*path, "lifecycle"), _NO_HOOKS)
        if is_sidecar or report.is_sound((*path, "restartPolicy")):
            check_probes(container, path, report, has_probes=is_sidecar, grace_s=grace_s)
    for index, container in enumerate(spec.get("containers", [])):
        path = ("spec", "containers", index)
        _check_env(container, path, report)
        _check_hooks(container, path, report, grace_s=grace_s)
        check_probes(container, path, report, has_probes=True, grace_s=grace_s)


def _check_hooks(container: V1Container, path: FieldPath, report: ManifestReport, *, grace_s: int) -> None:
    hooks: Mapping[str, V1Action] = container.get("lifecycle", {})  # type: ignore[assignment]  # all are hooks
    for name in _HOOKS:
        if name in hooks:
            check_action(hooks[name], (*path, "lifecycle", name), report, grace_s=grace_s)


def _check_env(container: V1Container, path: FieldPath, report: ManifestReport) -> None:
    check_env_from(container.get("envFrom", []), (*path, "envFrom"), report)
    for index, variable in enumerate(container.get("env", [])):
        if "valueFrom" in variable:
            _check_value_from(variable, (*path, "env", index, "valueFrom"), report)


def _check_value_from(variable: V1EnvVar, path: FieldPath, report: ManifestReport) -> None:
    if not report.is_sound(path):
        return
    if variable.get("value"):
        report.problem(path, 'Invalid value: "": may not be specified when `value` is not empty')
        return
    value_from = variable["valueFrom"]
    if not value_from:
        report.problem(path, f'Invalid value: "": must specify one of: {_SOURCES}')
    elif len(value_from) > 1:
        report.problem(path, 'Invalid value: "": may not have more than one field specified at a time')
    elif "resourceFieldRef" in value_from:
        check_resource(value_from["resourceFieldRef"], (*path, "resourceFieldRef"), report, in_volume=False)
    elif "configMapKeyRef" in value_from:
        _check_key(value_from["configMapKeyRef"], (*path, "configMapKeyRef"), report)
    elif "secretKeyRef" in value_from:
        _check_key(value_from["secretKeyRef"], (*path, "secretKeyRef"), report)
    elif not (field := value_from["fieldRef"].get("fieldPath", "")):
        report.problem((*path, "fieldRef", "fieldPath"), "Required value")
    elif not is_field_path(field):
        supported = f"{_FIELDS}, \"metadata.labels['KEY']\", \"metadata.annotations['KEY']\""
        report.problem((*path, "fieldRef", "fieldPath"), f'Unsupported value: "{field}": supported values: {supported}')


def _check_key(reference: V1KeyRef, path: FieldPath, report: ManifestReport) -> None:
    check_object_name(reference.get("name", ""), (*path, "name"), report)
    check_key(reference.get("key", ""), (*path, "key"), report)
