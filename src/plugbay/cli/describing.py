"""What the pages of ``describe`` have in common: pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, tzinfo

from plugbay.cli import v1
from plugbay.cli.rows import oldest_first, seen
from plugbay.cli.table import NONE, Description


def moment_text(moment: datetime | None, zone: tzinfo | None) -> str:
    """As kubectl writes moments, in ``zone``; None is the machine's own."""
    return "<unknown>" if moment is None else moment.astimezone(zone).strftime("%a, %d %b %Y %H:%M:%S %z")


def pairs_text(pairs: v1.Json, *, separator: str) -> str:
    """Labels and annotations: one a line, sorted."""
    return "\n".join(f"{key}{separator}{value}" for key, value in sorted(pairs.items())) or NONE


def describe_events(page: Description, events: Iterable[v1.Json], now: datetime) -> None:
    rows = [
        (
            v1.text(event, "type"),
            v1.text(event, "reason"),
            seen(event, now),
            v1.text(event, "source", "component"),
            v1.text(event, "message").strip(),
        )
        for event in oldest_first(events)
    ]
    page.table("Events", ("Type", "Reason", "Age", "From", "Message"), rows)
