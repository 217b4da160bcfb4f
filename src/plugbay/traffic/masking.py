"""Secrets, kept out of recordings and traces: people attach those to bug reports. Pure.

A value is left out whole if the name of its variable or annotation looks like that of a secret. In every other value,
and in the texts of failures, only those parts are left out that are secrets by their form.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from plugbay.errors import RpcFailed
from plugbay.traffic.pod_events import PodEvent
from plugbay.traffic.records import TrafficEvent, TrafficRecord
from plugbay.wire.message_values import with_masked_values

MASK: Final = "***"
"""Stands in the place of a value."""
_SECRET: Final = re.compile(
    r"password|passwd|passphrase|(^|[^a-z])pass($|[^a-z])|secret|token|credential|api[^a-z]?key|private[^a-z]?key|access[^a-z]?key|"
    r"auth($|[^a-z])|(^|[^a-z])pwd($|[^a-z])|(^|[^a-z])key$|cookie|session[^a-z]?id|sshpass|passcode|jwt|bearer|"
    r"(account|encryption|signing|master)key",
    re.IGNORECASE,
)
"""Names of variables and annotations whose values are masked: ``DB_PASSWORD``, ``API_KEY``, ``GITHUB_TOKEN``."""
_SETTING: Final = re.compile(r"(?<![\w.-])([\w.-]++)=(\"[^\"]*\"|'[^']*'|[^\s;&,\"']+)")
"""A setting within a text: its name and its value."""
_FORMS: Final = re.compile(
    r"(?<=://)[^\s/]+(?=@)|"
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)|"
    r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]+\.[\w-]*|"
    r"(?<!\w)(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|AKIA[0-9A-Z]{16})(?!\w)",
    re.DOTALL,
)
"""Secrets by their form: user and password in a URL, private keys in PEM, JSON web tokens, keys of known services."""


def looks_secret(name: str) -> bool:
    """Whether the value of a variable or annotation of this name is masked."""
    return _SECRET.search(name) is not None


def masked_value(name: str, value: str) -> str:
    """The value of a variable or annotation as it is recorded."""
    return MASK if looks_secret(name) else masked_text(value)


def masked_text(text: str) -> str:
    """A text without passwords of URLs, values of settings such as ``password=``, private keys and tokens."""
    text = _SETTING.sub(lambda found: f"{found[1]}={MASK}" if looks_secret(found[1]) else found[0], text)
    return _FORMS.sub(MASK, text)


def masked(record: TrafficRecord) -> TrafficRecord:
    """The record without values that look like secrets; the same one if there are none."""
    if (failure := record.failure) is not None and (detail := masked_text(failure.detail)) != failure.detail:
        record = replace(record, failure=RpcFailed(failure.code, detail))
    if record.event is not TrafficEvent.ANSWER:
        return record
    message = with_masked_values(record.method, record.message, masked_value)
    return record if message is record.message else replace(record, message=message)


def masked_step(event: PodEvent) -> PodEvent:
    """The step without what looks like a secret in its problem: that may hold a text of a plugin."""
    problem = masked_text(event.problem)
    return event if problem == event.problem else replace(event, problem=problem)
