"""A diagnosis as JSON, for programs and for the page. Pure."""

from __future__ import annotations

from plugbay.documents import Json
from plugbay.observe.doctor.evidence.values import Examined
from plugbay.observe.doctor.finding import Diagnosis, DoctorFinding


def diagnosis_document(diagnosis: Diagnosis, evidence: Examined, where: str) -> Json:
    """The diagnosis of the node at ``where``. Fields are added, and never change their meaning."""
    return {
        "root": where,
        "well": diagnosis.is_well,
        "complete": not diagnosis.incomplete,
        "checks": diagnosis.checks,
        "findings": [_finding(each) for each in diagnosis.findings],
        "incomplete": [{"id": each.check.id, "reasons": list(each.why)} for each in diagnosis.incomplete],
        "gaps": [{"source": gap.source.name, "what": gap.what, "why": gap.why} for gap in evidence.gaps],
        "kubelet": {
            "version": evidence.kubelet.version,
            "isPlugbay": evidence.kubelet.is_ours,
            "process": evidence.registration.by if evidence.registration else "",
        },
    }


def _finding(finding: DoctorFinding) -> Json:
    return {
        "id": finding.check.id,
        "severity": finding.check.severity.value,
        "title": finding.check.title,
        "what": finding.seen.what,
        "evidence": list(finding.seen.evidence),
        "pods": list(finding.seen.pods),
        "resources": list(finding.seen.resources),
        "cause": finding.check.cause,
        "remedy": finding.remedy,
        "page": finding.check.page,
        "fixes": [{"change": fix.kind.value, "path": fix.path} for fix in finding.seen.fixes],
    }
