"""Secrets, kept out of recordings and traces: people attach those to bug reports. Pure.

A value is left out whole if the name of its variable or annotation looks like that of a secret. In every other value,
and in the texts of failures, only those parts are left out that `plugbay.traffic.secret_texts` finds.
"""

from __future__ import annotations

from dataclasses import replace

from plugbay.errors import RpcFailed
from plugbay.traffic.pod_events import PodEvent
from plugbay.traffic.records import TrafficEvent, TrafficRecord
from plugbay.traffic.secret_texts import MASK, looks_secret, masked_text
from plugbay.wire.message_values import with_masked_error, with_masked_values


def masked_value(name: str, value: str) -> str:
    """The value of a variable or annotation as it is recorded."""
    return MASK if looks_secret(name) else masked_text(value)


def masked(record: TrafficRecord) -> TrafficRecord:
    """The record without values that look like secrets; the same one if there are none."""
    if (failure := record.failure) is not None and (detail := masked_text(failure.detail)) != failure.detail:
        record = replace(record, failure=RpcFailed(failure.code, detail))
    message = record.message
    if record.event is TrafficEvent.ANSWER:
        message = with_masked_values(record.method, message, masked_value)
    elif record.event is TrafficEvent.REQUEST:
        message = with_masked_error(record.method, message, masked_text)
    return record if message is record.message else replace(record, message=message)


def masked_step(event: PodEvent) -> PodEvent:
    """The step without what looks like a secret in its problem: that may hold a text of a plugin."""
    problem = masked_text(event.problem)
    return event if problem == event.problem else replace(event, problem=problem)
