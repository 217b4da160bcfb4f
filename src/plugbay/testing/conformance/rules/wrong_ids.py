"""Allocate for devices that are not offered, or in requests that make no sense: an error, and the plugin lives on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from plugbay.testing.conformance.probe.meeting import Meeting
from plugbay.testing.conformance.reasons import CannotJudge
from plugbay.testing.conformance.rule import Manner, RuleSeverity, rule, scene
from plugbay.testing.conformance.rules.allocate import Answer
from plugbay.testing.conformance.stage import Stage
from plugbay.values import dataclass

_MANAGER: Final = "kubelet 1.36 pkg/kubelet/cm/devicemanager/manager.go"
_API: Final = "Kubernetes 1.36 pkg/kubelet/apis/deviceplugin/v1beta1/api.proto"
UNKNOWN_ID: Final = "plugbay-no-such-device"
_ENDS_S: Final = 2.0
"""A process that was killed by what it was asked is gone by then, though its memory is written to a file."""

UNKNOWN: Final = "an unknown device"
PARTLY_UNKNOWN: Final = "a known and an unknown device"
EMPTY_ID: Final = "an empty ID"
NO_DEVICES: Final = "no devices"
NO_CONTAINERS: Final = "no containers"
TWICE: Final = "a device twice"


@dataclass(frozen=True, slots=True)
class WrongIdsSeen:
    """Requests that make no sense.

    Attributes:
        answers: the answer to each, by what was asked.
        killed_by: the request after which the plugin had ended, or answered nothing; empty if it lives.
        how: what became of it.
        once: the answer for the device that was then asked for twice.
    """

    answers: Mapping[str, Answer]
    killed_by: str
    how: str
    once: Answer


@scene("wrong devices", manner=Manner.OWN)
async def WRONG_IDS(stage: Stage) -> WrongIdsSeen:
    """Ask for devices that are not there, for none, and for one twice."""
    meeting = await stage.begin_with_devices()
    known = meeting.healthy[0]
    once = await meeting.allocate([known])
    requests: tuple[tuple[str, tuple[list[str], ...]], ...] = (
        (UNKNOWN, ([UNKNOWN_ID],)),
        (PARTLY_UNKNOWN, ([known, UNKNOWN_ID],)),
        (EMPTY_ID, ([""],)),
        (NO_DEVICES, ([],)),
        (NO_CONTAINERS, ()),
        (TWICE, ([known, known],)),
    )
    answers: dict[str, Answer] = {}
    for name, containers in requests:
        answers[name] = await meeting.allocate(*containers)
        if how := await _death(stage, meeting):
            return WrongIdsSeen(answers, name, how, once)
    return WrongIdsSeen(answers, "", "", once)


async def _death(stage: Stage, meeting: Meeting) -> str:
    """How the plugin ended, or that it answers nothing; empty if it lives."""
    options = await meeting.ask_options()
    if options.failure is None:
        return ""
    await stage.subject.until_ended(_ENDS_S)
    return stage.why_silent().lstrip("; ") or f"it answers nothing any more: {options.failure}"


@rule(
    405,
    "Allocate of an unknown device is an error",
    RuleSeverity.SHOULD,
    source=f"{_MANAGER}: a device may be gone since it was chosen, and the answer starts a container without it",
    scene=WRONG_IDS,
)
def refuses_unknown(seen: WrongIdsSeen) -> Iterator[str]:
    for name in (UNKNOWN, PARTLY_UNKNOWN):
        answer = seen.answers.get(name)
        if answer is not None and answer.failure is None:
            yield f"Allocate of {name} ({UNKNOWN_ID!r}) is answered without an error"


@rule(
    406,
    "A request for an unknown device does not end the plugin",
    RuleSeverity.MUST,
    source=f"{_MANAGER}: the end of the plugin takes all its devices from the node",
    scene=WRONG_IDS,
)
def survives_unknown(seen: WrongIdsSeen) -> Iterator[str]:
    if seen.killed_by in (UNKNOWN, PARTLY_UNKNOWN):
        yield f"after Allocate of {seen.killed_by}: {seen.how}"


@rule(
    407,
    "A request without devices, or with an empty ID, does not end the plugin",
    RuleSeverity.SHOULD,
    source=f"{_API}, AllocateRequest: lists may be empty, and no caller but a kubelet is bound to more",
    scene=WRONG_IDS,
)
def survives_nothing(seen: WrongIdsSeen) -> Iterator[str]:
    _needs(seen, EMPTY_ID)
    if seen.killed_by in (NO_DEVICES, NO_CONTAINERS, EMPTY_ID):
        yield f"after Allocate of {seen.killed_by}: {seen.how}"


@rule(
    408,
    "A device that is asked for twice is refused, or given once",
    RuleSeverity.SHOULD,
    source="kubelet 1.36 pkg/kubelet/cm/devicemanager/pod_devices.go: a path that is given twice is taken once",
    scene=WRONG_IDS,
)
def gives_a_device_once(seen: WrongIdsSeen) -> Iterator[str]:
    answer = _needs(seen, TWICE)
    if seen.killed_by == TWICE:
        yield f"after Allocate of {TWICE}: {seen.how}"
    elif answer.value and seen.once.value:
        one, two = seen.once.value[0], answer.value[0]
        for what, alone, twice in (
            ("device nodes", len(one.device_nodes), len(two.device_nodes)),
            ("mounts", len(one.mounts), len(two.mounts)),
            ("CDI devices", len(one.cdi_devices), len(two.cdi_devices)),
        ):
            if twice > alone:
                yield f"a device that is asked for twice in one container gets {twice} {what}, alone it gets {alone}"


@rule(
    423,
    "An empty ID is not a device",
    RuleSeverity.SHOULD,
    source=f"{_API}, Device.ID; a request for it is one for an unknown device",
    scene=WRONG_IDS,
)
def refuses_an_empty_id(seen: WrongIdsSeen) -> Iterator[str]:
    answer = _needs(seen, EMPTY_ID)
    if answer.failure is None:
        yield "Allocate of an empty ID is answered without an error"


def _needs(seen: WrongIdsSeen, name: str) -> Answer:
    """The answer to a request that was made if those before it did not end the plugin."""
    if name not in seen.answers:
        raise CannotJudge(f"the plugin had ended before it was asked for {name}")
    return seen.answers[name]
