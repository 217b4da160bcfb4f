"""Compare what a plugin answered in a trace with what it answers now. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from plugbay.errors import RpcFailed
from plugbay.testing.tracing.replay_plan import ReplayedCall
from plugbay.traffic.masking import masked_value
from plugbay.traffic.secret_texts import masked_text
from plugbay.wire.message_values import LIST_AND_WATCH, REGISTER, message_value, with_masked_values

_MOST: Final = 20
"""The differences of one answer that are told."""
_LONGEST: Final = 200


def compare_registration(before: bytes, now: bytes) -> list[str]:
    """The differences of two Register calls; the name of the plugin's socket may be any."""
    values = [message_value(REGISTER, each, is_answer=False) or {} for each in (before, now)]
    for value in values:
        value.pop("endpoint", None)
    return _told(values[0], values[1])


def compare_call(call: ReplayedCall, answer: bytes | None, failure: RpcFailed | None) -> list[str]:
    """The differences of an answer, or a failure, from those in the recording.

    Of ListAndWatch the first lists are compared, in which the order of devices is free.
    """
    if call.failure is not None or failure is not None:
        before, now = _status(call.failure), _status(failure)
        return [] if before == now else [f"{before} in the recording, {now} now"]
    before_value, now_value = _value(call, call.answer), _value(call, answer)
    return _told(before_value, now_value)


def compare_request(method: str, before: bytes, now: bytes) -> list[str]:
    """The differences of what a manager asked a plugin; the order of device IDs, and IDs of operations, are free."""
    values = [message_value(method, each, is_answer=False) for each in (before, now)]
    return _told(*(_free(value) for value in values))


def _free(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _free(each) for name, each in value.items() if name != "operation_id"}
    if isinstance(value, list):
        return sorted(value) if all(isinstance(each, str) for each in value) else [_free(each) for each in value]
    return value


def _status(failure: RpcFailed | None) -> str:
    return "an answer" if failure is None else f"a failure ({RpcFailed(failure.code, masked_text(failure.detail))})"


def _value(call: ReplayedCall, answer: bytes | None) -> Any:
    if answer is None:
        return None
    masked = with_masked_values(call.method, answer, masked_value)
    value = message_value(call.method, masked, is_answer=True)
    if value is None:
        return f"bytes {masked.hex()}"
    if call.method == LIST_AND_WATCH:
        return {"devices": {str(each.pop("ID", "")): each for each in value.get("devices", [])}}
    return value


def _told(before: Any, now: Any) -> list[str]:
    differences = list(_differences("", before, now))
    more = len(differences) - _MOST
    return differences[:_MOST] + ([f"and {more} more differences"] if more > 0 else [])


def _differences(path: str, before: Any, now: Any) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys((*before, *now)):
            yield from _differences(_below(path, name), before.get(name), now.get(name))
    elif isinstance(before, list) and isinstance(now, list):
        for number in range(max(len(before), len(now))):
            pair = (each[number] if number < len(each) else None for each in (before, now))
            yield from _differences(f"{path}[{number}]", *pair)
    elif before != now:
        yield f"{path or 'the message'}: {_shown(before)} in the recording, {_shown(now)} now"


def _below(path: str, name: str) -> str:
    word = name if name.replace("_", "a").isalnum() else json.dumps(name, ensure_ascii=False)
    return f"{path}.{word}" if path else word


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
