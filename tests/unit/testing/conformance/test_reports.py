"""Reports: what other programs read is well formed, whatever a plugin printed; known findings do not count."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from plugbay.errors import UsageError
from plugbay.testing.conformance.baseline import KnownFinding, baseline_of, read_baseline, with_baseline
from plugbay.testing.conformance.catalogue import rule_named
from plugbay.testing.conformance.findings import ConformanceReport, PluginOutput, RuleOutcome, Verdict
from plugbay.testing.conformance.reports.as_html import as_html
from plugbay.testing.conformance.reports.as_json import as_json
from plugbay.testing.conformance.reports.as_junit import as_junit
from plugbay.testing.conformance.rule import RuleSeverity

HOSTILE = "</pre><script>alert(1)</script>\x1b[2J\x00\u202e]]>&amp;<img src=x onerror=alert(1)>"
RESOURCE = "example.com/gpu"
REPORT = ConformanceReport(
    ("./plugin", HOSTILE),
    (RESOURCE,),
    (
        Verdict(rule_named("PB101"), "", RuleOutcome.PASSED),
        Verdict(rule_named("PB303"), RESOURCE, RuleOutcome.FAILED, (HOSTILE,), trace=(f"0.1 s {HOSTILE}",)),
        Verdict(rule_named("PB302"), RESOURCE, RuleOutcome.FAILED, ("late",)),
        Verdict(rule_named("PB204"), RESOURCE, RuleOutcome.NOT_APPLICABLE, ("not announced",)),
        Verdict(rule_named("PB401"), RESOURCE, RuleOutcome.NOT_JUDGED, ("it ended",)),
    ),
    (PluginOutput(HOSTILE, 5_000_000, "in the scene 'lists'"),),
    took_s=1.5,
)


class Page(HTMLParser):
    """The elements and attributes of a page, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_page_shows_hostile_output_as_text_only() -> None:
    page = Page()
    page.feed(as_html(REPORT))
    assert page.elements.isdisjoint({"script", "img", "a", "link", "iframe", "object", "form"})
    assert not any(name.startswith("on") or name in ("src", "href") for name in page.attributes)
    assert "<script>alert(1)</script>" in page.text
    assert not {"\x1b", "\x00", "\u202e"} & set(page.text)


def test_page_forbids_all_but_its_own_style() -> None:
    assert "default-src 'none'" in as_html(REPORT)


def test_page_has_the_trace_of_a_broken_rule() -> None:
    page = Page()
    page.feed(as_html(REPORT))
    assert "0.1 s </pre>" in page.text
    assert rule_named("PB303").source in page.text


def test_junit_is_xml_whatever_was_printed() -> None:
    suite = ElementTree.fromstring(as_junit(REPORT, RuleSeverity.MUST))
    assert suite.attrib["tests"] == "5"
    assert suite.attrib["failures"] == "2"
    failures = {case.attrib["name"].split()[0]: case.find("failure") for case in suite.iter("testcase")}
    assert {name for name, failure in failures.items() if failure is not None} == {"PB303", "PB401"}
    assert "\\x1b[2J\\x00" in (failures["PB303"].attrib["message"] if failures["PB303"] is not None else "")


def test_junit_fails_for_what_fails_the_run() -> None:
    suite = ElementTree.fromstring(as_junit(REPORT, RuleSeverity.SHOULD))
    assert suite.attrib["failures"] == "3"


def test_json_holds_every_verdict() -> None:
    value = json.loads(as_json(REPORT))
    assert [each["rule"] for each in value["verdicts"]] == ["PB101", "PB303", "PB302", "PB204", "PB401"]
    assert value["verdicts"][1]["findings"] == [HOSTILE]
    assert value["summary"]["failed"] == 2
    assert value["outputs"][0]["bytes"] == 5_000_000


def test_severity_decides_whether_a_run_fails() -> None:
    only_should = ConformanceReport((), (), (REPORT.verdicts[2],))
    assert not only_should.fails_at(RuleSeverity.MUST)
    assert only_should.fails_at(RuleSeverity.SHOULD)
    assert only_should.fails_at(RuleSeverity.INFO)


def test_rule_that_could_not_be_judged_fails_a_run() -> None:
    assert ConformanceReport((), (), (REPORT.verdicts[4],)).fails_at(RuleSeverity.MUST)


def test_known_findings_do_not_fail_a_run() -> None:
    known = read_baseline(baseline_of(REPORT), "known.json")
    assert known == (KnownFinding("PB303", RESOURCE), KnownFinding("PB302", RESOURCE))
    judged = ConformanceReport((), (), REPORT.verdicts[:4])
    assert judged.fails_at(RuleSeverity.MUST)
    assert not with_baseline(judged, known).fails_at(RuleSeverity.INFO)


def test_finding_of_another_resource_is_new() -> None:
    known = (KnownFinding("PB303", "example.com/other"),)
    assert with_baseline(REPORT, known).fails_at(RuleSeverity.MUST)


def test_known_finding_without_a_resource_covers_all() -> None:
    assert with_baseline(REPORT, [KnownFinding("PB303")]).verdicts[1].is_known


def test_known_finding_that_is_gone_is_noted() -> None:
    report = with_baseline(REPORT, [KnownFinding("PB101"), KnownFinding("PB105")])
    assert report.notes == ("PB101 is in the baseline, and was not found: it can be taken out.",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "known.json is not a baseline"),
        ("[]", "is wanted"),
        ('{"version": 2, "known": []}', '"version": 1'),
        ('{"version": 1, "known": ["PB101"]}', r"known.json: known\[0\] is not a finding"),
        ('{"version": 1, "known": [{"rule": "PB101", "resource": 1}]}', r"known\[0\].resource is not a text"),
    ],
)
def test_file_that_is_not_a_baseline_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read_baseline(text, "known.json")
