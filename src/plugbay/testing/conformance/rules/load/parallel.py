"""Calls at the same time, beside many streams, and beside a kubelet that does not read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Final

from plugbay.model.devices import PluginOptions
from plugbay.model.edits import ContainerEdits
from plugbay.testing.conformance.probe.answers import CallSeen, seen
from plugbay.testing.conformance.probe.deaf import deaf_kubelet
from plugbay.testing.conformance.probe.meeting import Meeting
from plugbay.testing.conformance.reasons import CannotJudge, NotApplicable
from plugbay.testing.conformance.rule import Manner, RuleSeverity, rule, scene
from plugbay.testing.conformance.rules.allocate import GIVEN_ONCE
from plugbay.testing.conformance.rules.restarts.streams import channel_to, one_stream
from plugbay.testing.conformance.stage import Stage
from plugbay.values import dataclass
from plugbay.wire.plugin_calls import ask_options

AT_ONCE: Final = 16
STREAMS: Final = 3
"""So many registrations before, of which kubelet 1.36 keeps the streams, are more than a plugin has a reason for."""
_CALL_S: Final = 10.0
_OTHER_S: Final = 3.0
"""The time for a call that waits for nothing, on a machine that is busy."""
_HEAD_START_S: Final = 0.05
_SLOW_S: Final = 0.2
"""An Allocate that takes so long makes others wait, if they do."""
_MANAGER: Final = "kubelet 1.36 pkg/kubelet/cm/devicemanager/manager.go"
_HANDLER: Final = "kubelet 1.36 pkg/kubelet/cm/devicemanager/plugin/v1beta1/handler.go"

_TRIES: Final = 3
"""On a machine that is busy, an Allocate may be over before another call is sent."""

Options = CallSeen[PluginOptions]


@dataclass(frozen=True, slots=True)
class Beside:
    """A call during an Allocate, which took ``left_s`` seconds more from then on."""

    options: Options
    left_s: float


@dataclass(frozen=True, slots=True)
class ParallelSeen:
    """Calls one by one, and together.

    Attributes:
        device: the device of all Allocate calls.
        alone: Allocate.
        together: as many Allocate calls at the same time.
        beside: GetDevicePluginOptions, sent during an Allocate; None if Allocate is too quick to be in the way.
    """

    device: str
    alone: CallSeen[tuple[ContainerEdits, ...]]
    together: tuple[CallSeen[tuple[ContainerEdits, ...]], ...]
    beside: Beside | None


@dataclass(frozen=True, slots=True)
class CrowdSeen:
    """Calls to a plugin with more kubelets than one.

    Attributes:
        has_list: for each of several streams, whether it got its list.
        with_streams: a call on another connection, while these are open.
        with_deaf: a call on another connection, while a kubelet does not read what it asked for.
        list_with_deaf: whether another stream gets a list meanwhile, if one just before does.
    """

    has_list: tuple[bool, ...]
    with_streams: Options
    with_deaf: Options
    list_with_deaf: bool


@scene("calls at the same time")
async def PARALLEL(stage: Stage) -> ParallelSeen:
    """Allocate twice, many times together, and with another call beside it."""
    meeting = await stage.begin_with_devices()
    device = meeting.healthy[0]
    alone = await meeting.allocate([device], timeout_s=_CALL_S)
    if alone.failure is not None:
        raise CannotJudge(f"Allocate of {device!r} fails: {alone.text}")
    if (await meeting.allocate([device], timeout_s=_CALL_S)).failure is not None:
        raise NotApplicable(GIVEN_ONCE)
    together = await asyncio.gather(*(meeting.allocate([device], timeout_s=_CALL_S) for _ in range(AT_ONCE)))
    beside = await _beside(meeting, device) if alone.took_s >= _SLOW_S else None
    return ParallelSeen(device, alone, tuple(together), beside)


@scene("several kubelets", manner=Manner.OWN)
async def CROWD(stage: Stage) -> CrowdSeen:
    """Open many streams, then one that nobody reads, and call the plugin meanwhile."""
    meeting = await stage.begin_with_devices()
    async with AsyncExitStack() as streams:
        opened = [await streams.enter_async_context(one_stream(meeting.socket)) for _ in range(STREAMS)]
        lists = await asyncio.gather(*(each.first_list(_OTHER_S) for each in opened))
        with_streams = await _options(meeting)
    async with one_stream(meeting.socket) as stream:
        before = await stream.first_list(_OTHER_S)
    try:
        async with deaf_kubelet(meeting.socket):
            with_deaf = await _options(meeting)
            async with one_stream(meeting.socket) as stream:
                listed = await stream.first_list(_OTHER_S)
    except OSError as error:
        raise CannotJudge(f"the plugin's socket cannot be dialled: {error.strerror}") from None
    return CrowdSeen(
        tuple(each is not None for each in lists), with_streams, with_deaf, listed is not None or before is None
    )


async def _beside(meeting: Meeting, device: str) -> Beside | None:
    """Ask for the options on another connection, while an Allocate is under way."""
    loop = asyncio.get_running_loop()

    async def allocate() -> float:
        """Tell when it was over."""
        await meeting.allocate([device], timeout_s=_CALL_S)
        return loop.time()

    async with channel_to(meeting.socket) as channel:
        await seen(ask_options(channel, timeout_s=_OTHER_S))  # connects
        for _ in range(_TRIES):
            allocating = asyncio.ensure_future(allocate())
            await asyncio.sleep(_HEAD_START_S)
            asked_at = loop.time()
            options = await seen(ask_options(channel, timeout_s=_CALL_S))
            if (left_s := await allocating - asked_at) >= _SLOW_S / 2:
                return Beside(options, left_s)
    return None


async def _options(meeting: Meeting) -> Options:
    async with channel_to(meeting.socket) as channel:
        return await seen(ask_options(channel, timeout_s=_OTHER_S))


@rule(
    801,
    f"Of {AT_ONCE} Allocate calls at the same time, each is answered",
    RuleSeverity.SHOULD,
    source="plugbay's manager admits pods in parallel; a kubelet calls Allocate for one pod after the other",
    scene=PARALLEL,
    is_timed=True,
)
def answers_together(seen: ParallelSeen) -> Iterator[str]:
    if failed := [each for each in seen.together if each.failure is not None]:
        count = f"{len(failed)} of {len(seen.together)}"
        yield f"{count} Allocate calls of {seen.device!r} at the same time failed: {failed[0].text}"


@rule(
    802,
    f"Calls are answered while {STREAMS} more streams are open",
    RuleSeverity.SHOULD,
    source=f"{_HANDLER}: a registration closes no connection before it (1.36); each stream takes a thread of a pool",
    scene=CROWD,
    is_timed=True,
)
def answers_beside_streams(seen: CrowdSeen) -> Iterator[str]:
    if not any(seen.has_list):
        raise NotApplicable("a second stream gets no list (PB314)")
    if seen.with_streams.failure is not None:
        yield f"with {STREAMS} more streams open, GetDevicePluginOptions fails: {seen.with_streams.text}"


@rule(
    803,
    "A call that is slow holds up no other call",
    RuleSeverity.SHOULD,
    source=f"{_MANAGER}: PreStartContainer of a pod that starts is called while another one is admitted",
    scene=PARALLEL,
    is_timed=True,
)
def holds_up_nothing(seen: ParallelSeen) -> Iterator[str]:
    if (beside := seen.beside) is None:
        raise NotApplicable(f"Allocate takes {seen.alone.took_s * 1000:.0f} ms: too little to be in the way")
    if beside.options.failure is not None:
        yield f"GetDevicePluginOptions during an Allocate fails: {beside.options.text}"
    elif beside.options.took_s > beside.left_s / 2:
        waited, left = beside.options.took_s * 1000, beside.left_s * 1000
        yield f"GetDevicePluginOptions took {waited:.0f} ms during an Allocate that was over after {left:.0f} ms"


@rule(
    804,
    "A kubelet that does not read holds up no other",
    RuleSeverity.MUST,
    source=f"{_HANDLER}: an old connection may stay open unread; a kubelet that was stopped reads nothing either",
    scene=CROWD,
    is_timed=True,
)
def outlives_silence(seen: CrowdSeen) -> Iterator[str]:
    if seen.with_streams.failure is not None:
        raise NotApplicable(f"calls beside streams fail in any case (PB802): {seen.with_streams.text}")
    if seen.with_deaf.failure is not None:
        yield f"while a kubelet does not read its list, GetDevicePluginOptions fails: {seen.with_deaf.text}"
    elif not seen.list_with_deaf:
        yield f"while a kubelet does not read its list, another one got none within {_OTHER_S:g} s"
