"""A report as a page that needs nothing else: no script, no address, and nothing of a plugin that is not text. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from plugbay.errors.wording import printable
from plugbay.testing.conformance.findings import ConformanceReport, PluginOutput, RuleOutcome, Verdict

_STYLE: Final = """
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .25rem .6rem .25rem 0; }
tr { border-bottom: 1px solid #8884; } code, pre { font: 13px/1.4 ui-monospace, monospace; }
pre { overflow-x: auto; padding: .6rem; background: #8881; white-space: pre-wrap; overflow-wrap: anywhere; }
.failed { color: #c22; font-weight: 600; } .passed { color: #2a7d33; } .not { opacity: .7; } .known { color: #a60; }
summary { cursor: pointer; }
"""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""Even if a text got out of its element, nothing would run, load or be sent."""
_CLASSES: Final = {
    RuleOutcome.PASSED: "passed",
    RuleOutcome.FAILED: "failed",
    RuleOutcome.NOT_APPLICABLE: "not",
    RuleOutcome.NOT_JUDGED: "failed",
}


def as_html(report: ConformanceReport) -> str:
    """The whole page."""
    command = _text(" ".join(report.command))
    counts = ", ".join(f"{count} {outcome.value}" for outcome, count in report.counts.items() if count)
    body = "\n".join(
        [
            "<h1>Conformance of a device plugin</h1>",
            f"<p><code>{command}</code></p>",
            f"<p>{_text(', '.join(report.resources) or 'no resource')}: {counts} in {report.took_s:.1f} s</p>",
            *(f"<p>{_text(note)}</p>" for note in report.notes),
            *_details(report),
            *(_output(each) for each in report.outputs),
            "<h2>All rules</h2>",
            "<table><thead><tr><th>Rule<th>Severity<th>Verdict<th>Resource<th>Title</tr></thead><tbody>",
            *(_row(each) for each in report.verdicts),
            "</tbody></table>",
        ]
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>plugbay conform</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _details(report: ConformanceReport) -> Iterator[str]:
    for verdict in report.verdicts:
        if verdict.is_bad:
            known = " (known)" if verdict.is_known else ""
            yield f"<h2>{verdict.rule.name} {_text(verdict.rule.title)}{known}</h2>"
            yield f"<p>{verdict.rule.severity.value} · {_text(verdict.resource or 'the plugin')}</p>"
            yield "<ul>" + "".join(f"<li>{_text(each)}" for each in verdict.findings) + "</ul>"
            yield f"<p>Source: {_text(verdict.rule.source)}</p>"
            if verdict.trace:
                trace = _text("\n".join(verdict.trace))
                yield f"<details><summary>Trace: {_text(verdict.scene)}</summary><pre>{trace}</pre></details>"


def _output(output: PluginOutput) -> str:
    cut = f" (the end of {output.size} bytes)" if output.is_cut else ""
    return f"<h2>The plugin's output{cut}</h2><p>{_text(output.cause)}</p><pre>{_text(output.end)}</pre>"


def _row(verdict: Verdict) -> str:
    style = "known" if verdict.is_known else _CLASSES[verdict.outcome]
    word = "known" if verdict.is_known else verdict.outcome.value
    return (
        f"<tr><td>{verdict.rule.name}<td>{verdict.rule.severity.value}<td class={style}>{word}"
        f"<td>{_text(verdict.resource)}<td>{_text(verdict.rule.title)}</tr>"
    )


def _text(text: str) -> str:
    """Any text as text of a page: control characters, and those that turn the direction of writing, are named."""
    return escape(printable(text))
