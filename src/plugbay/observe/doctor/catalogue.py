"""The registry of all checks, and the examination by them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from plugbay.observe.doctor.evidence.values import Examined
from plugbay.observe.doctor.finding import Check, Diagnosis, DoctorFinding, FindingSeverity, Incomplete, Seen
from plugbay.observe.doctor.findings import containers, machine, pods, resources, sockets, state

CHECKS: Final[tuple[Check, ...]] = (
    *sockets.CHECKS,
    *state.CHECKS,
    *resources.CHECKS,
    *pods.CHECKS,
    *containers.CHECKS,
    *machine.CHECKS,
)
_ORDER: Final = tuple(FindingSeverity)


def examine(evidence: Examined, checks: Iterable[Check] = CHECKS) -> Diagnosis:
    """All that ``checks`` find. Without a kubelet's directory only the check that says so finds something."""
    chosen = tuple(checks)
    findings = [DoctorFinding(check, seen) for check in chosen for seen in check.find(evidence)]
    findings.sort(key=lambda each: (_ORDER.index(each.check.severity), each.check.id))
    incomplete = (Incomplete(check, _missing(check, evidence)) for check in chosen)
    return Diagnosis(len(chosen), tuple(findings), tuple(each for each in incomplete if each.why))


def _missing(check: Check, evidence: Examined) -> tuple[str, ...]:
    return tuple(f"could not read {gap}" for gap in evidence.gaps if gap.source in check.needs)


def check_named(name: str) -> Check | None:
    """The check with this ID; letters may be small."""
    return next((each for each in CHECKS if each.id == name.upper()), None)


def about_pod(diagnosis: Diagnosis, pods: Collection[str], resources: Collection[str]) -> Diagnosis:
    """The findings that may keep a pod from running: about it, about its resources, and about the node as a whole.

    Args:
        pods: the pod's UID and its names.
        resources: those that it asks for or holds.
    """
    kept = [each for each in diagnosis.findings if _concerns(each, pods, resources)]
    kept.sort(key=lambda each: not set(each.seen.pods) & set(pods))
    return Diagnosis(diagnosis.checks, tuple(kept), diagnosis.incomplete)


def _concerns(finding: DoctorFinding, pods: Collection[str], resources: Collection[str]) -> bool:
    seen: Seen = finding.seen
    if seen.pods:
        return not set(seen.pods).isdisjoint(pods)
    if seen.resources:
        return not set(seen.resources).isdisjoint(resources)
    return finding.check.severity is not FindingSeverity.INFO
