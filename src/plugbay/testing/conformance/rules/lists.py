"""Lists of devices: what each message says, and when it comes."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Final, Protocol

from plugbay.errors import RpcCode, RpcFailed
from plugbay.kernel.numa import read_numa_nodes
from plugbay.model.devices import ListedDevice
from plugbay.testing.conformance.probe.meeting import Meeting, SeenList
from plugbay.testing.conformance.reasons import CannotJudge, NotApplicable
from plugbay.testing.conformance.rule import Manner, RuleSeverity, Scene, rule, scene
from plugbay.testing.conformance.rules.changes import CHANGES
from plugbay.testing.conformance.rules.registration import QUIET
from plugbay.testing.conformance.stage import Stage
from plugbay.values import dataclass
from plugbay.wire import plugin_calls

_API: Final = "Kubernetes 1.36 pkg/kubelet/apis/deviceplugin/v1beta1/api.proto"
_MANAGER: Final = "kubelet 1.36 pkg/kubelet/cm/devicemanager/manager.go"
_CLIENT: Final = "kubelet 1.36 pkg/kubelet/cm/devicemanager/plugin/v1beta1/client.go"
_PROMPT_S: Final = 5.0
_SECOND_S: Final = 5.0
_LONGEST_ID: Final = 63
_LARGEST_BYTES: Final = 4 << 20
_LARGE_BYTES: Final = 3 << 20
_HIGHEST_NODE: Final = 63
_SHOWN: Final = 5


class ListsOfScene(Protocol):
    """The part that is lists of what was seen in a scene."""

    @property
    def lists(self) -> tuple[SeenList, ...]: ...


@dataclass(frozen=True, slots=True)
class ListsSeen:
    """The lists of a plugin that was just registered, and the first one on another stream.

    Attributes:
        first_after_s: the time from the opening of the stream to its first message; None if none came.
        stream_end: the error that ended the stream; None if it goes on, or ended normally.
        second: the first message on a second stream beside the first one; None if none came.
        second_end: the error that ended the second stream.
        nodes: the NUMA nodes of this machine.
    """

    lists: tuple[SeenList, ...]
    first_after_s: float | None
    stream_end: RpcFailed | None
    second: tuple[ListedDevice, ...] | None
    second_end: RpcFailed | None
    nodes: frozenset[int]


_LATER: Final[tuple[Scene[ListsOfScene], ...]] = (QUIET, CHANGES)
"""The scenes with lists that come later: by themselves, and when devices change."""


@scene("lists")
async def LISTS(stage: Stage) -> ListsSeen:
    """Read the first list, and the first one on a second stream."""
    meeting = await _met(stage)
    second, second_end = await _second_stream(stage, meeting)
    first = meeting.lists[0].at - meeting.began if meeting.lists else None
    nodes = await asyncio.to_thread(_nodes)
    return ListsSeen(tuple(meeting.lists), first, meeting.end, second, second_end, nodes)


async def _met(stage: Stage) -> Meeting:
    """As `Stage.begin`, but a plugin that sends no list is met as well."""
    try:
        return await stage.begin()
    except CannotJudge:
        meeting = await stage.kubelet.meet(stage.resource, 0)
        if meeting is None:
            raise
        return meeting


async def _second_stream(stage: Stage, meeting: Meeting) -> tuple[tuple[ListedDevice, ...] | None, RpcFailed | None]:
    channel = stage.kubelet.transport.channel(meeting.socket)
    stage.trace.note("kubelet opens a second connection, and a second stream on it")
    try:
        async with asyncio.timeout(_SECOND_S), aclosing(plugin_calls.watch_lists(channel)) as messages:
            async for message in messages:
                stage.trace.note(f"the second stream lists {len(message.devices)} devices")
                return message.devices, None
        return None, None
    except TimeoutError:
        return None, None
    except RpcFailed as failure:
        return None, failure
    finally:
        await channel.close()


def _nodes() -> frozenset[int]:
    return frozenset(read_numa_nodes(Path("/sys")).nodes)


@rule(
    301,
    "ListAndWatch sends a list, if only an empty one",
    RuleSeverity.MUST,
    source=f"{_MANAGER}: without a message the resource has no capacity, and pods that ask for it are not handled",
    scene=LISTS,
)
def sends_a_list(seen: ListsSeen) -> Iterator[str]:
    if not seen.lists:
        yield f"ListAndWatch sent nothing{f': {seen.stream_end}' if seen.stream_end else ''}"


@rule(
    302,
    "The first list comes promptly",
    RuleSeverity.SHOULD,
    source=f"{_CLIENT}: capacity is 0, or what a dead plugin left, until it comes",
    scene=LISTS,
    is_timed=True,
)
def sends_the_first_promptly(seen: ListsSeen) -> Iterator[str]:
    if seen.first_after_s is None:
        raise NotApplicable("no list came")
    if seen.first_after_s > _PROMPT_S:
        yield f"the first list came {seen.first_after_s:.1f} s after ListAndWatch was called"


@rule(
    303,
    "Device IDs are unique in a list",
    RuleSeverity.MUST,
    source=f"{_MANAGER}, genericDeviceUpdateCallback: one that is listed healthy and unhealthy counts twice",
    scene=LISTS,
    also=_LATER,
)
def lists_unique_ids(seen: ListsOfScene) -> Iterator[str]:
    for listed in _needs_lists(seen):
        double = [each for each, count in Counter(device.id for device in listed.devices).items() if count > 1]
        if double:
            yield f"{named_ids(double)} {'is' if len(double) == 1 else 'are'} more than once in a list"
            return


@rule(
    304,
    "Device IDs have at most 63 characters",
    RuleSeverity.SHOULD,
    source=f"{_API}, Device.ID: the limit is written there, and not enforced",
    scene=LISTS,
    also=_LATER,
)
def lists_short_ids(seen: ListsOfScene) -> Iterator[str]:
    long = [each.id for each in _needs_devices(seen) if len(each.id) > _LONGEST_ID]
    if long:
        yield f"{named_ids(long)}: {max(map(len, long))} characters, the API allows {_LONGEST_ID}"


@rule(
    305,
    "Device IDs are not empty",
    RuleSeverity.SHOULD,
    source=f"{_API}, Device.ID: it identifies the device",
    scene=LISTS,
    also=_LATER,
)
def lists_ids(seen: ListsOfScene) -> Iterator[str]:
    if any(not each.id for each in _needs_devices(seen)):
        yield "a device has an empty ID"


@rule(
    306,
    "Health is Healthy or Unhealthy, in these letters",
    RuleSeverity.MUST,
    source=f"{_MANAGER}: any text but Healthy is unhealthy; deviceplugin/v1beta1/constants.go has the two",
    scene=LISTS,
    also=_LATER,
)
def lists_known_health(seen: ListsOfScene) -> Iterator[str]:
    others = sorted({each.health for each in _needs_devices(seen)} - {"Healthy", "Unhealthy"})
    if others:
        count = sum(each.health in others for each in _needs_devices(seen))
        yield f"{_quoted(others)} is the health of {count} devices; kubelets take it as Unhealthy"


@rule(
    307,
    "NUMA nodes are numbers from 0 to 63, or not told at all",
    RuleSeverity.MUST,
    source="kubelet 1.36 pkg/kubelet/cm/topologymanager/bitmask; checkpoint: -1 is the mark for no node",
    scene=LISTS,
    also=_LATER,
)
def lists_sane_nodes(seen: ListsOfScene) -> Iterator[str]:
    wrong = {node for each in _needs_devices(seen) for node in each.numa_nodes or () if not 0 <= node <= _HIGHEST_NODE}
    if wrong:
        devices = [each.id for each in _needs_devices(seen) if wrong & set(each.numa_nodes or ())]
        numbers = ", ".join(map(str, sorted(wrong)))
        yield f"{named_ids(devices)} is on NUMA node {numbers}: no hint can match, and a policy may refuse pods"


@rule(
    308,
    "NUMA nodes are nodes of this machine",
    RuleSeverity.SHOULD,
    source="kubelet 1.36 pkg/kubelet/cm/devicemanager/topology_hints.go: hints come from the machine's nodes",
    scene=LISTS,
)
def lists_nodes_of_the_machine(seen: ListsSeen) -> Iterator[str]:
    told = {node for each in _needs_devices(seen) for node in each.numa_nodes or () if 0 <= node <= _HIGHEST_NODE}
    if not told or not seen.nodes:
        raise NotApplicable("the plugin tells no NUMA node")
    if foreign := sorted(told - seen.nodes):
        here = ", ".join(map(str, sorted(seen.nodes)))
        yield f"devices are on NUMA node {', '.join(map(str, foreign))}, and this machine has node {here}"


@rule(
    310,
    "A device without a NUMA node has no topology",
    RuleSeverity.INFO,
    source=f"{_MANAGER}: an empty list of nodes is told apart in hints for devices that are used again",
    scene=LISTS,
)
def leaves_topology_out(seen: ListsSeen) -> Iterator[str]:
    empty = [each.id for each in _needs_devices(seen) if each.numa_nodes == ()]
    if empty:
        yield f"{named_ids(empty)} has a topology without nodes"


@rule(
    312,
    "The order of devices stays while they do",
    RuleSeverity.INFO,
    source="plugbay's manager ranks devices by their place in a list; kubelets do not look at the order",
    scene=LISTS,
)
def keeps_the_order(seen: ListsSeen) -> Iterator[str]:
    lists = [[each.id for each in listed.devices] for listed in _needs_lists(seen)]
    if seen.second is not None:
        lists.append([each.id for each in seen.second])
    if len(lists) < 2:
        raise NotApplicable("the plugin sent one list")
    for before, after in itertools.pairwise(lists):
        if before != after and sorted(before) == sorted(after):
            yield f"the devices were listed as {named_ids(before)}, and then as {named_ids(after)}"
            return


@rule(
    314,
    "A second stream gets the list too",
    RuleSeverity.MUST,
    source=f"{_CLIENT}: a kubelet that was restarted opens a stream while the plugin may still hold the old one",
    scene=LISTS,
    is_timed=True,
)
def serves_a_second_stream(seen: ListsSeen) -> Iterator[str]:
    if not seen.lists:
        raise NotApplicable("the first stream got no list")
    if seen.second is None:
        why = f": {seen.second_end}" if seen.second_end else f" in {_SECOND_S:g} s"
        yield f"ListAndWatch on a second connection, beside the first, sent nothing{why}"
    elif {each.id for each in seen.second} != {each.id for each in seen.lists[-1].devices}:
        yield f"the second stream listed {len(seen.second)} devices, the first {len(seen.lists[-1].devices)}"


@rule(
    320,
    "A list is smaller than 4 MiB",
    RuleSeverity.MUST,
    source="kubelet 1.36 dials with gRPC's defaults: a larger message ends the stream",
    scene=LISTS,
)
def lists_little(seen: ListsSeen) -> Iterator[str]:
    if seen.stream_end is not None and seen.stream_end.code is RpcCode.RESOURCE_EXHAUSTED:
        yield f"a list did not fit: {seen.stream_end}"
    elif seen.lists and max(each.size for each in seen.lists) > _LARGE_BYTES:
        size = max(each.size for each in seen.lists)
        yield f"a list has {size} bytes; one of more than {_LARGEST_BYTES} ends the stream"


@rule(
    322,
    "Lists are messages of the API, with texts in UTF-8",
    RuleSeverity.MUST,
    source="protobuf language guide (proto3), string; a message that cannot be decoded ends the stream",
    scene=LISTS,
)
def sends_messages(seen: ListsSeen) -> Iterator[str]:
    for failure in (seen.stream_end, seen.second_end):
        if failure is not None and failure.code is RpcCode.INTERNAL:
            yield f"a list cannot be read: {failure}"
            return


# --- the same devices after a restart ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TwoLives:
    """The device IDs of one process of the plugin, and of the next."""

    before: tuple[str, ...]
    after: tuple[str, ...]


@scene("plugin starts again", manner=Manner.OWN, starts=2)
async def RESTARTED(stage: Stage) -> TwoLives:
    """End the plugin, start it again, and compare its devices."""
    meeting = await stage.begin_with_devices()
    before = meeting.healthy
    await stage.subject.end()
    await meeting.ended.wait()
    await stage.start_plugin()
    again = await stage.meet(stage.settings.ready_timeout_s, after=meeting)
    await again.until(lambda: len(again.healthy) >= len(before), 2.0)
    return TwoLives(before, again.healthy)


@rule(
    313,
    "Device IDs stay the same when the plugin starts again",
    RuleSeverity.MUST,
    source=f"{_MANAGER}: assignments are kept by device ID, over restarts of plugin and kubelet",
    scene=RESTARTED,
)
def keeps_ids(seen: TwoLives) -> Iterator[str]:
    gone = [each for each in seen.before if each not in seen.after]
    new = [each for each in seen.after if each not in seen.before]
    if gone and new:
        yield f"after a restart {named_ids(gone)} came back as {named_ids(new)}: what pods hold is not known any more"


def _needs_lists(seen: ListsOfScene) -> tuple[SeenList, ...]:
    if not seen.lists:
        raise NotApplicable("no list came")
    return seen.lists


def _needs_devices(seen: ListsOfScene) -> tuple[ListedDevice, ...]:
    """The devices of all lists, each state once."""
    devices = tuple(dict.fromkeys(device for each in seen.lists for device in each.devices))
    if not devices:
        raise NotApplicable("the plugin has no device")
    return devices


def named_ids(ids: Sequence[str]) -> str:
    """The first of ``ids``, and how many more there are."""
    return ", ".join(map(repr, ids[:_SHOWN])) + (f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else "")


def _quoted(texts: list[str]) -> str:
    return ", ".join(map(repr, texts[:_SHOWN]))
