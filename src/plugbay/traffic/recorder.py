"""Keep records as they come, and wait for them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from plugbay.errors import RpcFailed
from plugbay.ops.changes import Changes
from plugbay.ops.clock import Clock
from plugbay.traffic.records import Party, TrafficEvent, TrafficRecord

MOST_RECORDS: Final = 100_000
"""Beyond them the oldest are forgotten."""


class TrafficRecorder:
    """The records of one run.

    Args:
        clock: tells the time of each record.
        most: the number of records that are kept; with 0 they only go to listeners.

    Attributes:
        records: what passed, oldest first.
        listeners: called with each record as it comes.
    """

    def __init__(self, clock: Clock, *, most: int = MOST_RECORDS) -> None:
        self.records: deque[TrafficRecord] = deque(maxlen=most)
        self.listeners: list[Callable[[TrafficRecord], object]] = []
        self._clock = clock
        self._began_s = clock.monotonic()
        self._changes = Changes()
        self._connections = 0
        self._calls = 0

    def of(self, method: str, *, event: TrafficEvent = TrafficEvent.REQUEST) -> list[TrafficRecord]:
        """The records of a method, such as ``Allocate``."""
        return [record for record in self.records if record.name == method and record.event is event]

    async def until(self, condition: Callable[[TrafficRecord], bool], *, timeout_s: float) -> TrafficRecord:
        """The first record that meets ``condition``, of those that are here already and those to come.

        Raises:
            TimeoutError: none came in time.
        """
        async with asyncio.timeout(timeout_s):
            async for _ in self._changes:
                for record in self.records:
                    if condition(record):
                        return record
        raise AssertionError("changes have no end")

    def connection(self) -> int:
        """A number for a new connection."""
        self._connections += 1
        return self._connections

    def next_call(self) -> int:
        """A number for a new call."""
        self._calls += 1
        return self._calls

    def call(self, connection: int, resource: str, method: str, caller: Party) -> CallRecorder:
        """A recorder for the events of a new call."""
        return CallRecorder(self, connection, self.next_call(), resource, method, caller)

    def put(
        self,
        event: TrafficEvent,
        sender: Party,
        connection: int,
        *,
        call: int = 0,
        resource: str = "",
        method: str = "",
        message: bytes = b"",
        failure: RpcFailed | None = None,
        note: str = "",
    ) -> None:
        """Add a record with the present time."""
        if not self.listeners and not self.records.maxlen:
            return
        at_s = self._clock.monotonic() - self._began_s
        record = TrafficRecord(at_s, event, sender, connection, call, resource, method, message, failure, note)
        self.records.append(record)
        for listener in self.listeners:
            listener(record)
        self._changes.notify()


class CallRecorder:
    """The events of one call. It ends once: what ends it later, such as a fault after its good end, is told by that."""

    def __init__(
        self, recorder: TrafficRecorder, connection: int, number: int, resource: str, method: str, caller: Party
    ) -> None:
        self._recorder = recorder
        self._connection = connection
        self.number = number
        self._resource = resource
        self._method = method
        self._caller = caller
        self._has_ended = False
        self._answerer = Party.PLUGIN if caller is Party.KUBELET else Party.KUBELET

    def request(self, message: bytes) -> None:
        self._put(TrafficEvent.REQUEST, self._caller, message=message)

    def answer(self, message: bytes) -> None:
        self._put(TrafficEvent.ANSWER, self._answerer, message=message)

    def end(self, failure: RpcFailed | None = None) -> None:
        """The call ended by its answerer, well unless there is a ``failure``."""
        self._end(self._answerer, failure)

    def given_up(self, failure: RpcFailed) -> None:
        """The caller ended the call."""
        self._end(self._caller, failure)

    def _end(self, sender: Party, failure: RpcFailed | None) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._put(TrafficEvent.END, sender, failure=failure)

    def fault(self, note: str) -> None:
        self._put(TrafficEvent.FAULT, self._caller, note=note)

    def _put(
        self,
        event: TrafficEvent,
        sender: Party,
        *,
        message: bytes = b"",
        failure: RpcFailed | None = None,
        note: str = "",
    ) -> None:
        self._recorder.put(
            event,
            sender,
            self._connection,
            call=self.number,
            resource=self._resource,
            method=self._method,
            message=message,
            failure=failure,
            note=note,
        )
