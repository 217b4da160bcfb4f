"""A report as JUnit's XML, which CI systems read: a test case for each rule and resource. Pure."""

from __future__ import annotations

import re
from typing import Final
from xml.etree import ElementTree

from plugbay.testing.conformance.findings import ConformanceReport, RuleOutcome, Verdict
from plugbay.testing.conformance.rule import RuleSeverity

_NOT_XML: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""The characters that XML 1.0 cannot hold in any way."""


def as_junit(report: ConformanceReport, threshold: RuleSeverity) -> str:
    """The report; rules that are less grave than ``threshold``, and known findings, do not fail."""
    cases = [_case(each, threshold) for each in report.verdicts]
    suite = ElementTree.Element(
        "testsuite",
        name="plugbay conform",
        tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
        errors="0",
        skipped=str(sum(case.find("skipped") is not None for case in cases)),
        time=f"{report.took_s:.3f}",
    )
    properties = ElementTree.SubElement(suite, "properties")
    ElementTree.SubElement(properties, "property", name="command", value=_clean(" ".join(report.command)))
    suite.extend(cases)
    if report.outputs:
        text = "\n".join(f"{each.cause}:\n{each.end}" for each in report.outputs)
        ElementTree.SubElement(suite, "system-out").text = _clean(text)
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _case(verdict: Verdict, threshold: RuleSeverity) -> ElementTree.Element:
    resource = f" [{verdict.resource}]" if verdict.resource else ""
    case = ElementTree.Element(
        "testcase",
        name=_clean(f"{verdict.rule.name} {verdict.rule.title}{resource}"),
        classname=f"plugbay.conform.{verdict.rule.scene.name.replace(' ', '_')}",
        time=f"{verdict.took_s:.3f}",
    )
    text = _clean("\n".join(verdict.findings))
    if verdict.counts_at(threshold):
        failure = ElementTree.SubElement(case, "failure", message=text, type=verdict.rule.severity.value)
        failure.text = _clean("\n".join((*verdict.findings, "", *verdict.trace)))
    elif verdict.is_bad:
        reason = "known" if verdict.is_known else f"{verdict.rule.severity.value} only"
        ElementTree.SubElement(case, "skipped", message=f"{reason}: {text}")
    elif verdict.outcome is RuleOutcome.NOT_APPLICABLE:
        ElementTree.SubElement(case, "skipped", message=text)
    return case


def _clean(text: str) -> str:
    return _NOT_XML.sub(lambda found: ascii(found[0])[1:-1], text)
