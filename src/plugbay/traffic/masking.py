"""Values that look like secrets, kept out of traces: people attach those to bug reports. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from plugbay.traffic.records import TrafficEvent, TrafficRecord
from plugbay.wire.message_values import with_masked_values

MASK: Final = "***"
"""Stands in the place of a value."""
_SECRET: Final = re.compile(
    r"password|passwd|passphrase|(^|[^a-z])pass($|[^a-z])|secret|token|credential|api[^a-z]?key|private[^a-z]?key|access[^a-z]?key|"
    r"auth($|[^a-z])|(^|[^a-z])pwd($|[^a-z])|(^|[^a-z])key$|cookie|session[^a-z]?id",
    re.IGNORECASE,
)
"""Names of variables and annotations whose values are masked: ``DB_PASSWORD``, ``API_KEY``, ``GITHUB_TOKEN``."""


def looks_secret(name: str) -> bool:
    """Whether the value of a variable or annotation of this name is masked."""
    return _SECRET.search(name) is not None


def masked(record: TrafficRecord) -> TrafficRecord:
    """The record without values that look like secrets; the same one if there are none."""
    if record.event is not TrafficEvent.ANSWER:
        return record
    message = with_masked_values(record.method, record.message, looks_secret, MASK)
    return record if message is record.message else replace(record, message=message)
