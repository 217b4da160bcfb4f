"""A diagnosis as a page for users. What other programs wrote is made harmless. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from plugbay.errors.wording import printable
from plugbay.observe.doctor.evidence.values import Examined, PodSight
from plugbay.observe.doctor.finding import Check, Diagnosis, DoctorFinding, FindingSeverity

_WIDEST: Final = 110
_LONGEST: Final = 400
_LABEL: Final = 8
_MOST_GAPS: Final = 6
_MOST_IDS: Final = 15


def page(diagnosis: Diagnosis, where: str, *, width: int, about: str = "") -> str:
    """The findings, the gravest first, then one sentence on the whole."""
    lines: list[str] = []
    for _, group in groupby(diagnosis.findings, key=lambda each: each.check.id):
        lines += [*_group(tuple(group), min(width, _WIDEST)), ""]
    return "\n".join([*lines, *verdict(diagnosis, where, width=min(width, _WIDEST), about=about), ""])


def _group(findings: Sequence[DoctorFinding], width: int) -> Iterator[str]:
    """The findings of one check, with cause and remedy once."""
    check = findings[0].check
    for finding in findings:
        yield from _wrapped(f"{check.severity.value} {check.id}: {harmless(finding.seen.what)}.", "", width)
        for line in finding.seen.evidence:
            yield from _wrapped(harmless(line), "seen:", width)
        if finding.remedy != findings[-1].remedy:
            yield from _wrapped(harmless(finding.remedy), "remedy:", width)
    yield from _wrapped(check.cause, "cause:", width)
    yield from _wrapped(harmless(findings[-1].remedy), "remedy:", width)


def _wrapped(text: str, label: str, width: int) -> list[str]:
    before = f"  {label.ljust(_LABEL)}" if label else ""
    rest = " " * len(before) if label else "  "
    return textwrap.wrap(
        text, max(width, 40), initial_indent=before, subsequent_indent=rest, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def harmless(text: str) -> str:
    """A text on one line, of bounded length, that cannot take over a terminal."""
    shown = printable(text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", " "))
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."


def verdict(diagnosis: Diagnosis, where: str, *, width: int, about: str = "") -> Iterator[str]:
    """One sentence on the whole, and what was not looked at."""
    subject = f"{about} on the node at {where}" if about else f"The node at {where}"
    subject = harmless(subject)
    if diagnosis.is_well:
        found = "nothing keeps it from running" if about else f"is well: {diagnosis.checks} checks found nothing wrong"
        yield f"{subject}: {found}, by {diagnosis.checks} checks." if about else f"{subject} {found}."
        return
    counts = [
        f"{count} {word if count == 1 else plural}"
        for severity, word, plural in (
            (FindingSeverity.ERROR, "error", "errors"),
            (FindingSeverity.WARNING, "warning", "warnings"),
            (FindingSeverity.INFO, "note", "notes"),
        )
        if (count := diagnosis.count(severity))
    ]
    whole, partial = diagnosis.checks - len(diagnosis.incomplete), len(diagnosis.incomplete)
    by = f"{diagnosis.checks} checks" if not partial else f"{diagnosis.checks} checks, {partial} of them incomplete"
    if not counts:
        by = f"the {whole} of {diagnosis.checks} checks that could see everything"
    yield from textwrap.wrap(f"{subject}: {', '.join(counts) or 'nothing wrong was found'}, by {by}.", width)
    if partial:
        yield from _gaps(diagnosis, width)
    if any(each.seen.fixes for each in diagnosis.findings):
        yield "Some of it can be mended without harm: plugbay doctor --fix --dry-run shows what --fix would do."


def _gaps(diagnosis: Diagnosis, width: int) -> Iterator[str]:
    """The checks that could not see everything, and why."""
    ids = [each.check.id for each in diagnosis.incomplete]
    named = ", ".join(ids) if len(ids) <= _MOST_IDS else f"{len(ids)} checks, which --json names"
    yield from textwrap.wrap(f"Incomplete, so that they would not have found everything: {named}.", width)
    reasons = list(dict.fromkeys(why for each in diagnosis.incomplete for why in each.why))
    for why in reasons[:_MOST_GAPS]:
        yield from _wrapped(harmless(why), "", width)
    if len(reasons) > _MOST_GAPS:
        yield f"  and {len(reasons) - _MOST_GAPS} more, which --json has"
    if any("Permission denied" in why or "closed to this user" in why for why in reasons):
        yield "Root sees more: sudo plugbay doctor"


def pod_lines(pod: PodSight, evidence: Examined) -> Iterator[str]:
    """A pod: its state, and what it holds."""
    state = f"{pod.phase or 'state not known'}{f', {pod.reason}' if pod.reason else ''}"
    yield harmless(f"Pod {pod.title} ({pod.uid or 'UID not known'}): {state}")
    for entry in evidence.checkpoint.entries:
        if entry.pod_uid == pod.uid:
            yield harmless(f"  container {entry.container} holds {', '.join(entry.devices)} of {entry.resource}")
    for container in pod.containers:
        wanted = ", ".join(f"{amount} {name}" for name, amount in container.limits.items() if "/" in name)
        if wanted:
            yield harmless(f"  container {container.name} asks for {wanted}")
        if container.waiting:
            yield harmless(f"  container {container.name} waits: {container.waiting}: {container.message}")


def explanation(check: Check) -> str:
    """All about a check."""
    lines = [f"{check.id}: {check.title} ({check.severity.value})", ""]
    lines += [*textwrap.wrap(f"Cause: {check.cause}", _WIDEST), ""]
    lines += [*textwrap.wrap(f"Remedy: {check.remedy}", _WIDEST), ""]
    if check.needs:
        lines += [*textwrap.wrap(f"It reads {', '.join(each.value for each in check.needs)}.", _WIDEST), ""]
    return "\n".join([*lines, f"Page: {check.page}", ""])
