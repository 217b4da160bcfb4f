"""Changes of devices: one goes and comes back, fails and recovers, and at last all are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final

from plugbay.model.ids import DeviceId
from plugbay.testing.conformance.probe.meeting import Meeting, SeenList
from plugbay.testing.conformance.probe.streams import AwaitedChange, StreamPair, first_listed, two_streams
from plugbay.testing.conformance.provoking import DeviceChange, provoke
from plugbay.testing.conformance.reasons import NotApplicable
from plugbay.testing.conformance.rule import Manner, RuleSeverity, rule, scene
from plugbay.testing.conformance.stage import Stage
from plugbay.values import dataclass

_API: Final = "Kubernetes 1.36 pkg/kubelet/apis/deviceplugin/v1beta1/api.proto, ListAndWatch"
_MANAGER: Final = "kubelet 1.36 pkg/kubelet/cm/devicemanager/manager.go"
_PROMPT_S: Final = 5.0


class StreamPlace(Enum):
    """The streams, in the order in which they were opened."""

    FIRST = "first"
    SECOND = "second"


@dataclass(frozen=True, slots=True)
class ChangeSeen:
    """One change, and what the lists made of it.

    Attributes:
        device: the device that was changed.
        noticed_after_s: the time until a list, on either stream, had the change; None if none had.
        waited_s: the time that it had for that.
        others: the other devices that were healthy before.
        left_out: those of them that were not healthy in that list.
        untold: which of two streams, open all the time, had no list with the change while the other had; None if both
            had it, and after one was found untold, for which the scene does not wait again.
        stream_ended: whether a stream that was open before was over then, or both were.
    """

    change: DeviceChange
    device: str
    noticed_after_s: float | None
    waited_s: float
    others: tuple[str, ...]
    left_out: tuple[str, ...]
    untold: StreamPlace | None
    stream_ended: bool


@dataclass(frozen=True, slots=True)
class ChangesSeen:
    """All changes that the command could make, in order; ``emptied`` is the last device's end.

    Attributes:
        lists: those of both streams, in the order in which they came.
    """

    changes: tuple[ChangeSeen, ...]
    emptied: ChangeSeen | None
    lists: tuple[SeenList, ...] = ()

    def of(self, change: DeviceChange) -> list[ChangeSeen]:
        """The changes of one kind."""
        return [each for each in self.changes if each.change is change]


@scene("devices change", manner=Manner.ALONE, returns=20, own_s=600)
async def CHANGES(stage: Stage) -> ChangesSeen:
    """Let a device disappear and appear, fail and recover; then let all disappear, and come back."""
    if not stage.settings.provoke:
        raise NotApplicable("devices change only with --provoke")
    meeting = await stage.begin_with_devices()
    device = meeting.healthy[0]
    changes: list[ChangeSeen] = []
    second = Meeting(meeting.request, meeting.socket, stage.kubelet.transport.channel(meeting.socket), stage.trace)
    async with two_streams(meeting, second, stage.settings.retry_timeout_s) as streams:
        for away, back in (
            (DeviceChange.DISAPPEAR, DeviceChange.APPEAR),
            (DeviceChange.FAIL, DeviceChange.RECOVER),
        ):
            if await _change(stage, streams, changes, away, device):
                await _change(stage, streams, changes, back, device)
        emptied = await _empty(stage, streams, changes)
    lists = sorted((*meeting.lists, *second.lists), key=lambda each: each.at)
    return ChangesSeen(tuple(changes), emptied, tuple(lists))


async def _empty(stage: Stage, streams: StreamPair, before: Sequence[ChangeSeen]) -> ChangeSeen | None:
    """Let all devices disappear, and come back; returns the last one's end, None if it did not come to that."""
    gone: list[DeviceId] = []
    changes = list(before)
    try:
        for each in streams.healthy:
            if not await _change(stage, streams, changes, DeviceChange.DISAPPEAR, each):
                return None
            gone.append(each)
            last = changes[-1]
            if not streams.healthy or last.stream_ended or last.noticed_after_s is None:
                return last
        return None
    finally:
        for each in gone:
            await provoke(stage, DeviceChange.APPEAR, each)


async def _change(
    stage: Stage, streams: StreamPair, changes: list[ChangeSeen], change: DeviceChange, device: str
) -> bool:
    """Make a change, wait until the lists have it and add it to ``changes``; False if the command cannot make it."""
    others = tuple(each for each in streams.healthy if each != device)
    is_back = change in (DeviceChange.APPEAR, DeviceChange.RECOVER)
    awaited = streams.awaiting(device, is_back=is_back)
    if not await provoke(stage, change, device):
        return False
    began = asyncio.get_running_loop().time()
    timeout_s = stage.settings.retry_timeout_s
    is_listed_already = all(each.was_so_before for each in awaited)
    noticed = None if is_listed_already else await first_listed(awaited, timeout_s)
    untold = None
    if noticed is not None and all(each.untold is None for each in changes):
        untold = await _untold(awaited, timeout_s)
    after_s = 0.0 if is_listed_already else None if noticed is None else max(0.0, noticed.at - began)
    left_out = tuple(each for each in others if each not in noticed.healthy) if noticed is not None else ()
    over = [each for each in awaited if each.stream.ended.is_set()]
    ended = len(over) == len(awaited) or any(each.was_open for each in over)
    changes.append(ChangeSeen(change, device, after_s, timeout_s, others, left_out, untold, ended))
    return True


async def _untold(awaited: Sequence[AwaitedChange], timeout_s: float) -> StreamPlace | None:
    """The stream that does not get the change which the other has, for as long as a list may take."""
    for place, each in zip(StreamPlace, awaited, strict=True):
        if each.is_missed and not await each.until_listed(timeout_s):
            return place
    return None


@rule(
    317,
    "A list has every change, and all other devices as they were",
    RuleSeverity.MUST,
    source=f"{_API}: a new list comes with each change; {_MANAGER}: a device that is not in it is gone",
    scene=CHANGES,
)
def lists_changes(seen: ChangesSeen) -> Iterator[str]:
    _needs(seen.changes)
    for each in seen.changes:
        if each.change is DeviceChange.RECOVER:
            continue
        if each.noticed_after_s is None:
            ended = "; the stream has ended" if each.stream_ended else ""
            yield f"{each.device!r} was made to {each.change.value}, and no list had that in {each.waited_s:g} s{ended}"
        elif each.left_out:
            yield f"the list in which {each.device!r} {_past(each.change)} leaves out {_named(each.left_out)}"


@rule(
    318,
    "A change is listed promptly",
    RuleSeverity.SHOULD,
    source=f"{_MANAGER}: until then a pod may get a device that is gone, or wait for one that is there",
    scene=CHANGES,
)
def lists_promptly(seen: ChangesSeen) -> Iterator[str]:
    _needs(seen.changes)
    for each in seen.changes:
        if each.noticed_after_s is not None and each.noticed_after_s > _PROMPT_S:
            yield f"that {each.device!r} {_past(each.change)} was listed after {each.noticed_after_s:.1f} s"


@rule(
    319,
    "A device that recovers is healthy again",
    RuleSeverity.MUST,
    source=f"{_API}: any change of health is one; otherwise a device is lost until the plugin is started again",
    scene=CHANGES,
)
def lists_recoveries(seen: ChangesSeen) -> Iterator[str]:
    recoveries = seen.of(DeviceChange.RECOVER)
    _needs(recoveries)
    for each in recoveries:
        if each.noticed_after_s is None:
            yield f"{each.device!r} recovered, and was not listed as healthy in {each.waited_s:g} s"


@rule(
    321,
    "A plugin without devices sends an empty list, and stays",
    RuleSeverity.MUST,
    source=f"{_MANAGER}: an empty list is legal; the end of the stream takes the resource from the node",
    scene=CHANGES,
)
def lists_nothing(seen: ChangesSeen) -> Iterator[str]:
    if seen.emptied is None:
        raise NotApplicable("the --provoke command cannot make all devices disappear")
    if seen.emptied.stream_ended:
        yield "the stream ended when the last device had disappeared"
    elif seen.emptied.noticed_after_s is None:
        yield f"no list without devices came in {seen.emptied.waited_s:g} s after the last one had disappeared"


@rule(
    315,
    "Every open stream has every change",
    RuleSeverity.SHOULD,
    source="NVIDIA k8s-device-plugin 0.17: health changes reach one of the open streams only, which may be a stale one",
    scene=CHANGES,
)
def tells_all_streams(seen: ChangesSeen) -> Iterator[str]:
    noticed = [each for each in seen.changes if each.noticed_after_s is not None]
    _needs(noticed)
    for each in noticed:
        if each.untold is not None:
            told = next(place.value for place in StreamPlace if place is not each.untold)
            change = f"that {each.device!r} {_past(each.change)}"
            yield f"{change} was listed on the {told} stream, and not on the {each.untold.value} one"


def _needs(found: Sequence[ChangeSeen]) -> None:
    if not found:
        raise NotApplicable("the --provoke command cannot make such a change")


def _past(change: DeviceChange) -> str:
    return {"fail": "failed", "recover": "recovered"}.get(change.value, f"{change.value}ed")


def _named(ids: Sequence[str | DeviceId]) -> str:
    return ", ".join(map(repr, ids[:5]))
