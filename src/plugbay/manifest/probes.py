"""Probes between v1 and our values, and what an API server checks of them.

Source: Kubernetes 1.36 ``pkg/apis/core/validation/validation.go`` (``validateProbe``),
``pkg/apis/core/v1/defaults.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypedDict

from plugbay.manifest.actions import V1Action, action_to_v1, check_action, probe_action_of
from plugbay.manifest.report import ManifestReport
from plugbay.manifest.resource_checks import invalid
from plugbay.model.field_path import FieldPath
from plugbay.model.pods import Container
from plugbay.model.probes import ContainerProbe, Probes

_FIELDS: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_COUNTS: Final = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_MAX: Final = 2**31 - 1
_NOT_HERE: Final = "Forbidden: may not be set for init containers without restartPolicy=Always"


class V1Probe(V1Action, total=False):
    initialDelaySeconds: int
    timeoutSeconds: int
    periodSeconds: int
    successThreshold: int
    failureThreshold: int
    terminationGracePeriodSeconds: int


class V1Probed(TypedDict, total=False):
    """The fields of a container that say how it is probed."""

    livenessProbe: V1Probe
    readinessProbe: V1Probe
    startupProbe: V1Probe


def probes_of(v1: V1Probed) -> Probes:
    """The probes of a container, defaults filled in like the API server: it takes 0 for no value."""
    return Probes(
        startup=_probe(v1.get("startupProbe")),
        liveness=_probe(v1.get("livenessProbe")),
        readiness=_probe(v1.get("readinessProbe")),
    )


def _probe(v1: V1Probe | None) -> ContainerProbe | None:
    if v1 is None:
        return None
    return ContainerProbe(
        probe_action_of(v1),
        initial_delay_s=v1.get("initialDelaySeconds", 0),
        timeout_s=v1.get("timeoutSeconds", 0) or 1,
        period_s=v1.get("periodSeconds", 0) or 10,
        success_threshold=v1.get("successThreshold", 0) or 1,
        failure_threshold=v1.get("failureThreshold", 0) or 3,
        grace_s=v1.get("terminationGracePeriodSeconds"),
    )


def probes_to_v1(container: Container) -> dict[str, object]:
    """The fields of a v1 container for its probes."""
    probes = container.probes
    found = {
        "livenessProbe": probes.liveness,
        "readinessProbe": probes.readiness,
        "startupProbe": probes.startup,
    }
    return {name: _to_v1(probe) for name, probe in found.items() if probe is not None}


def _to_v1(probe: ContainerProbe) -> dict[str, object]:
    grace = {} if probe.grace_s is None else {"terminationGracePeriodSeconds": probe.grace_s}
    delay = {"initialDelaySeconds": probe.initial_delay_s} if probe.initial_delay_s else {}
    return {
        **action_to_v1(probe.action),
        **delay,
        **grace,
        "timeoutSeconds": probe.timeout_s,
        "periodSeconds": probe.period_s,
        "successThreshold": probe.success_threshold,
        "failureThreshold": probe.failure_threshold,
    }


def check_probes(
    container: V1Probed, path: FieldPath, report: ManifestReport, *, has_probes: bool, grace_s: int
) -> None:
    """Report what an API server would refuse in the probes of one container.

    Args:
        has_probes: whether a container of this kind may have any: a plain init container may not.
        grace_s: the pod's grace period.
    """
    found: Mapping[str, V1Probe] = container  # type: ignore[assignment]  # those asked for are probes
    for name in _FIELDS:
        if name not in found or report.is_blamed((*path, name)):
            continue
        if has_probes:
            _check_probe(found[name], name, (*path, name), report, grace_s=grace_s)
        else:
            report.problem((*path, name), _NOT_HERE)


def _check_probe(probe: V1Probe, kind: str, path: FieldPath, report: ManifestReport, *, grace_s: int) -> None:
    check_action(probe, path, report, grace_s=grace_s)
    counts: Mapping[str, int] = probe  # type: ignore[assignment]  # those asked for are numbers
    for name in _COUNTS:
        if counts.get(name, 0) < 0:
            report.problem((*path, name), invalid(counts[name], "must be greater than or equal to 0"))
        elif counts.get(name, 0) > _MAX:
            report.problem((*path, name), invalid(counts[name], f"must be less than or equal to {_MAX}"))
    if "terminationGracePeriodSeconds" in probe:
        own_grace_s, where = probe["terminationGracePeriodSeconds"], (*path, "terminationGracePeriodSeconds")
        if kind == "readinessProbe":
            report.problem(where, invalid(own_grace_s, "must not be set for readinessProbes"))
        elif own_grace_s <= 0:
            report.problem(where, invalid(own_grace_s, "must be greater than 0"))
        elif own_grace_s > _MAX:
            report.problem(where, invalid(own_grace_s, f"must be less than or equal to {_MAX}"))
    if kind != "readinessProbe" and probe.get("successThreshold", 0) not in (0, 1):
        report.problem((*path, "successThreshold"), invalid(probe["successThreshold"], "must be 1"))
