"""Parts that the pages of ``describe`` have in common. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, tzinfo

from plugbay.cli.kubectl.rows import oldest_first, seen
from plugbay.cli.printing.table import NONE, Description
from plugbay.documents import Json
from plugbay.printers import v1


def moment_text(moment: datetime | None, zone: tzinfo | None) -> str:
    """Write a moment as kubectl does, in ``zone``; None is the machine's own."""
    return "<unknown>" if moment is None else moment.astimezone(zone).strftime("%a, %d %b %Y %H:%M:%S %z")


def pairs_text(pairs: Json, *, separator: str) -> str:
    """Labels and annotations: one a line, sorted."""
    return "\n".join(f"{key}{separator}{value}" for key, value in sorted(pairs.items())) or NONE


def describe_events(page: Description, events: Iterable[Json], now: datetime) -> None:
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
