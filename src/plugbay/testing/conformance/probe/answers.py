"""Answers to calls, and how long each took: an error is an answer as well."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import Generic, TypeVar

from plugbay.errors import RpcCode, RpcFailed
from plugbay.values import dataclass

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class CallSeen(Generic[Value]):
    """One call and its answer.

    Attributes:
        value: the answer; None if there is a failure.
        failure: the error that was answered, or why there was no answer.
        took_s: the time until then.
    """

    value: Value | None
    failure: RpcFailed | None
    took_s: float

    @property
    def hung(self) -> bool:
        """Whether there was no answer in time."""
        return self.failure is not None and self.failure.code is RpcCode.DEADLINE_EXCEEDED

    @property
    def was_cut(self) -> bool:
        """Whether the connection broke before there was an answer, as when a plugin dies."""
        return self.failure is not None and self.failure.code is RpcCode.UNAVAILABLE

    @property
    def text(self) -> str:
        """A few words on the outcome."""
        return "answered" if self.failure is None else str(self.failure)


async def seen(call: Awaitable[Value]) -> CallSeen[Value]:
    """Make ``call``, and note its outcome."""
    began = time.monotonic()
    try:
        return CallSeen(await call, None, time.monotonic() - began)
    except RpcFailed as failure:
        return CallSeen(None, failure, time.monotonic() - began)
