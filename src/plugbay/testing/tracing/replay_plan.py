"""The plan of a replay: the kubelet's calls of a trace, by the plugin's registrations. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from plugbay.errors import InvalidDocument, RpcFailed
from plugbay.traffic.records import Party, TrafficEvent, TrafficRecord
from plugbay.wire.message_values import method_name


@dataclass(eq=False)
class ReplayedCall:
    """A call of the trace.

    Attributes:
        number: its number in the recording.
        answer: the first message that the plugin answered.
        failure: the status that the plugin answered; None for messages, or nothing.
        is_answered: whether the plugin answered at all, rather than that the kubelet gave up or a fault came between.
    """

    number: int
    method: str
    resource: str
    request: bytes
    answer: bytes | None = None
    failure: RpcFailed | None = None
    is_answered: bool = False

    @property
    def title(self) -> str:
        """The name of the method, and the number."""
        return f"{method_name(self.method)} #{self.number}"


@dataclass(eq=False)
class ReplayedRegistration:
    """A Register call of the trace, and what the kubelet called until the next one.

    Attributes:
        request: the encoded request.
        refusal: the status that the kubelet answered; None if it accepted.
        dialled: the calls that it made before it answered.
        calls: those that it made afterwards.
        is_answered: whether it answered at all; a plugin may have given up before.
    """

    resource: str
    request: bytes
    refusal: RpcFailed | None = None
    dialled: list[ReplayedCall] = field(default_factory=list)
    calls: list[ReplayedCall] = field(default_factory=list)
    is_answered: bool = False

    @property
    def is_accepted(self) -> bool:
        return self.is_answered and self.refusal is None


@dataclass(eq=False)
class ReplayedLife:
    """One life of the kubelet: its registrations, in order. A resource that was not accepted may come again."""

    registrations: list[ReplayedRegistration] = field(default_factory=list)

    @property
    def calls(self) -> list[ReplayedCall]:
        """The calls after the registrations, in the order in which they began."""
        return sorted((call for each in self.registrations for call in each.calls), key=lambda call: call.number)

    def last(self, resource: str) -> ReplayedRegistration | None:
        """The last registration of a resource."""
        return next((each for each in reversed(self.registrations) if each.resource == resource), None)


def plan_of(
    records: Iterable[TrafficRecord], source: str, *, resources: Collection[str] = ()
) -> tuple[ReplayedLife, ...]:
    """The lives of the kubelet in a trace: a new one begins where a resource registers again that was accepted before.

    Args:
        resources: only these; empty for all.

    Raises:
        InvalidDocument: nothing in it can be played.
    """
    plan = _Plan()
    found: set[str] = set()
    was_found_by_socket = False
    for record in records:
        was_found_by_socket |= record.name == "GetInfo"
        if record.name == "Register" and record.event is TrafficEvent.REQUEST:
            found.add(record.resource)
        if not resources or record.resource in resources:
            plan.take(record)
    if plan.lives:
        return tuple(plan.lives)
    if found:
        wanted, others = (" and ".join(sorted(each)) for each in (resources, found))
        raise InvalidDocument(f"no plugin registers {wanted} in this trace, but {others}", source=source)
    if was_found_by_socket:
        problem = "the kubelet found this plugin by its socket; only plugins that call Register can be replayed"
        raise InvalidDocument(problem, source=source)
    raise InvalidDocument("no plugin registers in this trace, so nothing can be replayed", source=source)


class _Plan:
    def __init__(self) -> None:
        self.lives: list[ReplayedLife] = []
        self._calls: dict[int, ReplayedCall] = {}
        self._registering: dict[int, ReplayedRegistration] = {}

    def take(self, record: TrafficRecord) -> None:
        if record.name == "Register":
            self._take_registration(record)
        elif record.event is TrafficEvent.REQUEST and record.sender is Party.KUBELET:
            self._take_request(record)
        elif (call := self._calls.get(record.call)) is not None and record.sender is Party.PLUGIN:
            call.is_answered = True
            if call.answer is not None:
                return
            if record.event is TrafficEvent.ANSWER:
                call.answer = record.message
            elif record.event is TrafficEvent.END:
                call.failure = record.failure

    def _take_registration(self, record: TrafficRecord) -> None:
        if record.event is TrafficEvent.REQUEST:
            registration = ReplayedRegistration(record.resource, record.message)
            self._registering[record.call] = registration
            before = self.lives[-1].last(record.resource) if self.lives else None
            if not self.lives or (before is not None and before.is_accepted):
                self.lives.append(ReplayedLife())
            self.lives[-1].registrations.append(registration)
        elif record.event is TrafficEvent.END and record.sender is Party.KUBELET:
            if (made := self._registering.get(record.call)) is not None:
                made.refusal, made.is_answered = record.failure, True

    def _take_request(self, record: TrafficRecord) -> None:
        made = self.lives[-1].last(record.resource) if self.lives else None
        if made is None:
            return  # a call to a plugin that registered before
        call = ReplayedCall(record.call, record.method, record.resource, record.message)
        self._calls[record.call] = call
        (made.calls if made.is_answered else made.dialled).append(call)
