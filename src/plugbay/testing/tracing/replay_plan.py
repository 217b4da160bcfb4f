"""The plan of a replay: the kubelet's calls of a trace, by the plugin's registrations. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from plugbay.errors import InvalidDocument, RpcFailed
from plugbay.testing.traffic.records import Party, TrafficEvent, TrafficRecord
from plugbay.wire.message_values import method_name


@dataclass(eq=False)
class ReplayedCall:
    """A call of the trace.

    Attributes:
        number: its number in the trace.
        answers: the messages that the plugin answered.
        failure: the status that the plugin answered; None for messages, or nothing.
        is_answered: whether the plugin answered at all, rather than that the kubelet gave up or a fault came between.
    """

    number: int
    method: str
    resource: str
    request: bytes
    answers: list[bytes] = field(default_factory=list)
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
    """

    resource: str
    request: bytes
    refusal: RpcFailed | None = None
    dialled: list[ReplayedCall] = field(default_factory=list)
    calls: list[ReplayedCall] = field(default_factory=list)
    is_answered: bool = False


@dataclass(frozen=True, slots=True)
class ReplayedLife:
    """One life of the kubelet: a registration for each resource that registered in it."""

    registrations: tuple[ReplayedRegistration, ...]

    @property
    def was_refused(self) -> bool:
        """Whether a plugin was refused: then it registers again by itself."""
        return any(each.refusal is not None for each in self.registrations)

    @property
    def calls(self) -> list[ReplayedCall]:
        """The calls after the registrations, in the order in which they began."""
        return sorted((call for each in self.registrations for call in each.calls), key=lambda call: call.number)


def plan_of(records: Iterable[TrafficRecord], source: str) -> tuple[ReplayedLife, ...]:
    """The lives of the kubelet in a trace: the second begins where a plugin registers for the second time, and so on.

    Raises:
        InvalidDocument: nothing in it can be played.
    """
    plan = _Plan()
    for record in records:
        if record.name == "GetInfo":
            problem = "the kubelet found this plugin by its socket; only plugins that call Register can be replayed"
            raise InvalidDocument(problem, source=source)
        plan.take(record)
    if not plan.registrations:
        raise InvalidDocument("no plugin registers in this trace, so nothing can be replayed", source=source)
    longest = max(map(len, plan.registrations.values()))
    return tuple(
        ReplayedLife(tuple(each[life] for each in plan.registrations.values() if life < len(each)))
        for life in range(longest)
    )


class _Plan:
    def __init__(self) -> None:
        self.registrations: dict[str, list[ReplayedRegistration]] = {}
        self._calls: dict[int, ReplayedCall] = {}
        self._registering: dict[int, ReplayedRegistration] = {}

    def take(self, record: TrafficRecord) -> None:
        if record.name == "Register":
            self._take_registration(record)
        elif record.event is TrafficEvent.REQUEST and record.sender is Party.KUBELET:
            self._take_request(record)
        elif (call := self._calls.get(record.call)) is not None and record.sender is Party.PLUGIN:
            call.is_answered = True
            if record.event is TrafficEvent.ANSWER:
                call.answers.append(record.message)
            elif record.event is TrafficEvent.END and not call.answers:
                call.failure = record.failure

    def _take_registration(self, record: TrafficRecord) -> None:
        if record.event is TrafficEvent.REQUEST:
            registration = ReplayedRegistration(record.resource, record.message)
            self._registering[record.call] = registration
            self.registrations.setdefault(record.resource, []).append(registration)
        elif record.event is TrafficEvent.END and (made := self._registering.get(record.call)) is not None:
            made.refusal, made.is_answered = record.failure, True

    def _take_request(self, record: TrafficRecord) -> None:
        made = self.registrations.get(record.resource)
        if not made:
            return  # a call to a plugin that registered before the trace began
        call = ReplayedCall(record.call, record.method, record.resource, record.message)
        self._calls[record.call] = call
        (made[-1].calls if made[-1].is_answered else made[-1].dialled).append(call)
