"""The script of a replay to a manager: what plugins did and pods asked for in a recording, in order. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from plugbay.errors import InvalidDocument, RpcFailed
from plugbay.testing.tracing.manager.derived_pods import derived_pods
from plugbay.traffic.file_format import RecordedLine
from plugbay.traffic.list_differences import MessageDifference, message_difference
from plugbay.traffic.pod_events import PodEvent, RecordedStep
from plugbay.traffic.records import Party, TrafficEvent, TrafficRecord
from plugbay.wire.message_values import LIST_AND_WATCH, REGISTER, method_name


class PluginAct(Enum):
    """The acts of a plugin by itself."""

    REGISTER = "Register"
    LIST = "ListAndWatch"
    END = "end of ListAndWatch"


@dataclass(eq=False)
class PluginTurn:
    """A turn of a plugin.

    Attributes:
        line: of the recording.
        message: the encoded registration; empty for a plugin that registered before the recording.
        list: a list, as its difference from the resource's list in the turn before, at first from an empty one.
        refusal: the status of a registration that was refused.
        is_answered: whether a registration was answered.
    """

    line: int
    act: PluginAct
    resource: str
    message: bytes = b""
    list: MessageDifference | None = None
    refusal: RpcFailed | None = None
    is_answered: bool = False


@dataclass(eq=False)
class PodTurn:
    """A question for a pod.

    Attributes:
        outcome: the answer; None if the recording ends before it.
        until_line: the last line at which calls for it were made.
        is_derived: whether the pod is known by the calls to its plugins only.
    """

    line: int
    event: PodEvent
    outcome: PodEvent | None = None
    until_line: int = 0
    is_derived: bool = False


@dataclass(eq=False)
class RecordedCall:
    """A call of the recorded kubelet, other than ListAndWatch.

    Attributes:
        answer: None if it failed, or had no end.
        end_line: the line of its end; 0 if it had none.
        is_made: whether it was made again.
    """

    line: int
    method: str
    resource: str
    request: bytes
    answer: bytes | None = None
    failure: RpcFailed | None = None
    end_line: int = 0
    is_made: bool = False

    @property
    def title(self) -> str:
        return f"{self.resource}  {method_name(self.method)}"


Turn = PluginTurn | PodTurn
_ANSWERS = {
    RecordedStep.ADMIT: (RecordedStep.ADMITTED, RecordedStep.REFUSED),
    RecordedStep.PREPARE: (RecordedStep.PREPARED, RecordedStep.NOT_PREPARED),
    RecordedStep.RELEASE: (RecordedStep.RELEASED,),
}
_ALONE = frozenset({RecordedStep.HELD, RecordedStep.ENDED, RecordedStep.NOT_STARTED})


@dataclass
class ManagerScript:
    """A recording as turns, and the calls that they led to.

    Attributes:
        has_pods: whether it tells of pods; otherwise they are made of the calls of Allocate.
    """

    turns: list[Turn] = field(default_factory=list)
    calls: list[RecordedCall] = field(default_factory=list)
    has_pods: bool = False

    @property
    def has_held_pods(self) -> bool:
        """Whether pods had devices before the recording began."""
        return any(isinstance(turn, PodTurn) and turn.event.step is RecordedStep.HELD for turn in self.turns)


def script_of(lines: Iterable[RecordedLine], source: str) -> ManagerScript:
    """The script of a recording.

    Raises:
        InvalidDocument: nothing in it can be played.
    """
    reading = _Reading()
    for line in lines:
        reading.take(line)
    script = reading.script
    if not any(isinstance(turn, PluginTurn) for turn in script.turns):
        raise InvalidDocument("no plugin has devices in this recording, so nothing can be replayed", source=source)
    if not script.has_pods:
        pods = [
            PodTurn(number, event, outcome, until_line, is_derived=True)
            for number, event, outcome, until_line in derived_pods(
                (call.line, call.method, call.resource, call.request, call.failure) for call in script.calls
            )
        ]
        script.turns = sorted((*script.turns, *pods), key=lambda turn: turn.line)
    return script


class _Reading:
    def __init__(self) -> None:
        self.script = ManagerScript()
        self._registering: dict[int, PluginTurn] = {}
        self._calls: dict[int, RecordedCall] = {}
        self._asked: dict[tuple[str, str, RecordedStep], PodTurn] = {}
        self._live: set[str] = set()
        self._last: dict[str, bytes] = {}

    def take(self, line: RecordedLine) -> None:
        if isinstance(line.event, PodEvent):
            self.script.has_pods = True
            self._take_pod(line.number, line.event)
        elif line.event.method == REGISTER:
            self._take_registration(line.number, line.event)
        elif line.event.method == LIST_AND_WATCH:
            self.script.turns.extend(self._lists(line.number, line.event))
        elif line.event.method.startswith("/v1beta1.DevicePlugin/"):
            self._take_call(line.number, line.event)

    def _take_pod(self, number: int, event: PodEvent) -> None:
        if event.step in _ANSWERS or event.step in _ALONE:
            turn = PodTurn(number, event, until_line=number)
            self.script.turns.append(turn)
            for answer in _ANSWERS.get(event.step, ()):
                self._asked[event.uid, event.container, answer] = turn
        elif (asked := self._asked.pop((event.uid, event.container, event.step), None)) is not None:
            asked.outcome, asked.until_line = event, number

    def _take_registration(self, number: int, record: TrafficRecord) -> None:
        if record.event is TrafficEvent.REQUEST:
            turn = PluginTurn(number, PluginAct.REGISTER, record.resource, record.message)
            self._registering[record.call] = turn
            self.script.turns.append(turn)
            self._live.add(record.resource)
        elif record.event is TrafficEvent.END and record.sender is Party.KUBELET:
            if (made := self._registering.pop(record.call, None)) is not None:
                made.refusal, made.is_answered = record.failure, True

    def _lists(self, number: int, record: TrafficRecord) -> Iterator[PluginTurn]:
        is_open = record.event in (TrafficEvent.REQUEST, TrafficEvent.ANSWER)
        if is_open and record.resource not in self._live:
            self._live.add(record.resource)  # it was found by its socket, or registered before the file begins
            yield PluginTurn(number, PluginAct.REGISTER, record.resource)
        if record.event is TrafficEvent.ANSWER:
            before = self._last.get(record.resource, b"")
            self._last[record.resource] = record.message
            difference = message_difference(before, record.message)
            yield PluginTurn(number, PluginAct.LIST, record.resource, list=difference)
        elif record.event is TrafficEvent.END and record.sender is Party.PLUGIN:
            self._live.discard(record.resource)
            yield PluginTurn(number, PluginAct.END, record.resource)

    def _take_call(self, number: int, record: TrafficRecord) -> None:
        if record.event is TrafficEvent.REQUEST:
            call = RecordedCall(number, record.method, record.resource, record.message)
            self._calls[record.call] = call
            self.script.calls.append(call)
        elif (made := self._calls.get(record.call)) is not None:
            if record.event is TrafficEvent.ANSWER:
                made.answer, made.end_line = record.message, number
            elif record.event is TrafficEvent.END and made.answer is None:
                made.failure = record.failure
