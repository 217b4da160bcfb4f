"""Streams and connections that end, or of which there are several, while the kubelet runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from plugbay.errors import RpcFailed
from plugbay.testing.conformance.probe.meeting import Meeting
from plugbay.testing.conformance.reasons import CannotJudge, NotApplicable
from plugbay.testing.conformance.rule import Manner, RuleSeverity, rule, scene
from plugbay.testing.conformance.rules.restarts.manners import RestartSeen, until_back
from plugbay.testing.conformance.stage import Stage
from plugbay.values import dataclass
from plugbay.wire.grpc.channel import Channel
from plugbay.wire.plugin_calls import ask_options, watch_lists

_LIST_S: Final = 3.0
"""The time that a plugin has for the first list of one more stream."""
_STREAMS: Final = 3
_POLL_S: Final = 0.05
_CLIENT: Final = "kubelet 1.36 pkg/kubelet/cm/devicemanager/plugin/v1beta1/client.go"
_HANDLER: Final = "kubelet 1.36 pkg/kubelet/cm/devicemanager/plugin/v1beta1/handler.go"


@dataclass(frozen=True, slots=True)
class StreamsSeen:
    """The lists in more streams than one.

    Attributes:
        devices: the IDs in the kubelet's stream.
        first: the IDs in the first list of another connection; None if it did not come.
        second: those on the same connection, after the first stream was cancelled there; None if they did not come.
        trouble: the error of a call on that connection in between; empty if it was answered.
        together: the IDs in each of several streams that are open at a time.
    """

    devices: frozenset[str]
    first: frozenset[str] | None
    second: frozenset[str] | None
    trouble: str
    together: tuple[frozenset[str] | None, ...]


@dataclass(frozen=True, slots=True)
class LossesSeen:
    """The plugin after it lost something, while kubelet.sock stayed.

    Attributes:
        hang_up: after the kubelet had closed the connection.
        has_socket: whether it has a socket again, after its own was removed; None if that was gone before.
    """

    hang_up: RestartSeen
    has_socket: bool | None


@scene("several streams", manner=Manner.OWN)
async def STREAMS(stage: Stage) -> StreamsSeen:
    """Open a stream on another connection, cancel it, open it again, and then several at a time."""
    meeting = await stage.begin_with_devices()
    trouble, second = "", None
    async with channel_to(meeting.socket) as channel:
        first = await _first_list(channel)
        if first is not None:
            try:
                await ask_options(channel, timeout_s=_LIST_S)
            except RpcFailed as failure:
                trouble = str(failure)
            second = await _first_list(channel)
    async with AsyncExitStack() as open_streams:
        streams = [await open_streams.enter_async_context(one_stream(meeting.socket)) for _ in range(_STREAMS)]
        together = await asyncio.gather(*(stream.first_list(_LIST_S) for stream in streams))
    return StreamsSeen(_ids(meeting), first, second, trouble, tuple(together))


@scene("lost connection, lost socket", manner=Manner.OWN, starts=2, returns=3)
async def LOSSES(stage: Stage) -> LossesSeen:
    """Hang up on the plugin, and then remove its socket."""
    before = await stage.begin()
    await stage.kubelet.hang_up()
    hang_up = await until_back(stage, before)
    now = hang_up.meeting or before
    if hang_up.exit_code is not None or not now.socket.is_socket():
        return LossesSeen(hang_up, None)
    now.socket.unlink()
    stage.trace.note("the plugin's socket is removed")
    return LossesSeen(hang_up, await _has_socket_again(stage, now))


async def _has_socket_again(stage: Stage, before: Meeting) -> bool:
    """Whether the plugin listens at its old path, or has registered another one."""
    with suppress(TimeoutError):
        async with asyncio.timeout(stage.settings.retry_timeout_s):
            while await stage.kubelet.meet(stage.resource, 0, after=before) is None:
                if before.socket.is_socket() and await answers_at(before.socket):
                    return True
                await asyncio.sleep(_POLL_S)
            return True
    return False


async def answers_at(socket: Path, timeout_s: float = _LIST_S) -> bool:
    """Whether a plugin answers at ``socket``."""
    async with channel_to(socket) as channel:
        try:
            await ask_options(channel, timeout_s=timeout_s)
        except RpcFailed:
            return False
    return True


class OneStream:
    """A ListAndWatch stream on a connection of its own; used through `one_stream`."""

    def __init__(self, channel: Channel) -> None:
        self._lists = watch_lists(channel)

    async def first_list(self, timeout_s: float) -> frozenset[str] | None:
        """The IDs in the first list; None if it does not come."""
        with suppress(TimeoutError, RpcFailed, StopAsyncIteration):
            async with asyncio.timeout(timeout_s):
                return frozenset(each.id for each in (await anext(self._lists)).devices)
        return None

    async def close(self) -> None:
        await self._lists.aclose()


@asynccontextmanager
async def one_stream(socket: Path) -> AsyncIterator[OneStream]:
    """One more kubelet that listens to the plugin at ``socket``."""
    async with channel_to(socket) as channel:
        stream = OneStream(channel)
        try:
            yield stream
        finally:
            await stream.close()


@asynccontextmanager
async def channel_to(socket: Path) -> AsyncIterator[Channel]:
    """A connection of its own to the plugin at ``socket``."""
    channel = Channel(socket)
    try:
        yield channel
    finally:
        await channel.close()


async def _first_list(channel: Channel) -> frozenset[str] | None:
    with suppress(TimeoutError, RpcFailed):
        async with asyncio.timeout(_LIST_S), aclosing(watch_lists(channel)) as lists:
            async for message in lists:
                return frozenset(each.id for each in message.devices)
    return None


def _ids(meeting: Meeting) -> frozenset[str]:
    return frozenset(each.id for each in meeting.devices)


@rule(
    707,
    "The plugin makes its socket again when it was removed",
    RuleSeverity.SHOULD,
    source=f"{_CLIENT}, Connect: the socket is dialled at each registration; its removal breaks no open connection",
    scene=LOSSES,
)
def remakes_socket(seen: LossesSeen) -> Iterator[str]:
    if seen.has_socket is None:
        raise NotApplicable("the plugin's socket was gone before it was removed")
    if not seen.has_socket:
        yield f"{seen.hang_up.waited_s:g} s after its socket was removed, the plugin had none"


@rule(
    708,
    "The plugin registers again when the kubelet hangs up",
    RuleSeverity.SHOULD,
    source=f"{_CLIENT}, Run: a stream is opened once for each registration; Kubernetes issues #121994, #127803",
    scene=LOSSES,
)
def registers_after_hang_up(seen: LossesSeen) -> Iterator[str]:
    for sentence in seen.hang_up.lost():
        yield f"the kubelet closed the connection, and {sentence}"


@rule(
    709,
    "A cancelled stream leaves its connection usable",
    RuleSeverity.MUST,
    source=f"{_CLIENT}, Run: the next registration opens another stream; gRPC cancels streams, not connections",
    scene=STREAMS,
    is_timed=True,
)
def survives_cancelling(seen: StreamsSeen) -> Iterator[str]:
    if seen.first is None:
        raise NotApplicable("a second connection gets no list (PB314)")
    if seen.trouble:
        yield f"after a stream was cancelled, a call on the same connection fails: {seen.trouble}"
    elif seen.second is None:
        yield f"after a stream was cancelled, the next one on its connection had no list within {_LIST_S:g} s"
    elif seen.second != seen.devices:
        yield f"after a stream was cancelled, the next one lists {_shown(seen.second)}, not {_shown(seen.devices)}"


@rule(
    710,
    "Each of several streams gets the whole list",
    RuleSeverity.MUST,
    source=f"{_HANDLER}: when a plugin registers again, the old stream goes on beside the new one (1.36)",
    scene=STREAMS,
    is_timed=True,
)
def serves_several(seen: StreamsSeen) -> Iterator[str]:
    if not seen.devices:
        raise CannotJudge("the plugin lists no device")
    if seen.first is None:
        raise NotApplicable("a second stream gets no list (PB314)")
    if missing := seen.together.count(None):
        yield f"beside the kubelet's stream, {missing} of {len(seen.together)} had no list within {_LIST_S:g} s"
    for ids in dict.fromkeys(each for each in seen.together if each is not None and each != seen.devices):
        yield f"one of several streams lists {_shown(ids)}, not {_shown(seen.devices)}"


def _shown(ids: frozenset[str]) -> str:
    return ", ".join(map(repr, sorted(ids)[:4])) + (f" and {len(ids) - 4} more" if len(ids) > 4 else "") or "nothing"
