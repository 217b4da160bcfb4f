"""Allocate for devices that are offered: which answers come, how quickly, and whether they stay the same."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Final

from plugbay.cdi.directories import default_directories, scan
from plugbay.cdi.names import names_of
from plugbay.errors import InvalidCdiName
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import DeviceId
from plugbay.testing.conformance.probe.answers import CallSeen
from plugbay.testing.conformance.probe.meeting import CALL_S
from plugbay.testing.conformance.reasons import NotApplicable
from plugbay.testing.conformance.rule import Manner, RuleSeverity, rule, scene
from plugbay.testing.conformance.stage import Stage
from plugbay.values import dataclass

_API: Final = "Kubernetes 1.36 pkg/kubelet/apis/deviceplugin/v1beta1/api.proto"
_MANAGER: Final = "kubelet 1.36 pkg/kubelet/cm/devicemanager/manager.go"
_MOST_DEVICES: Final = 32
"""So many devices are allocated one by one."""
_AFTER_HANG_S: Final = 1.0
"""The time for each call after one that hung: the next ones do, too."""
_MOST_TOGETHER: Final = 8
_QUICK_S: Final = 1.0
"""No other pod of the node is admitted meanwhile."""
_LEFT_OUT: Final = frozenset(("pts", "shm", "fd", "mqueue", ".lxc", ".lxd-mounts", ".udev"))
"""Directories below a directory of devices of which a container gets nothing."""
GIVEN_ONCE: Final = "a device that was allocated once is refused (PB426)"
_CONSOLE: Final = "console"
"""Also left out: each container has one of its own."""

Answer = CallSeen[tuple[ContainerEdits, ...]]
"""The answer to one Allocate."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The facts about this machine that the answers depend on.

    Attributes:
        kinds: for each host path ``missing``, ``device``, ``devices`` (a directory with some at any depth),
            ``directory``, ``file`` or ``other``.
        unresolved: the CDI names, of those that are well formed, that no spec defines.
        directories: where specs were looked for.
    """

    kinds: Mapping[str, str] = field(default_factory=dict)
    unresolved: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AllocateSeen:
    """Allocate calls for devices that are offered.

    Attributes:
        alone: the answer for each device.
        again: the answer for the first device, asked for once more.
        together: the answer for several devices of one container, and for the same in reverse; empty for one device.
        apart: the devices of two containers in one request, and the answer; None for one device.
    """

    alone: Mapping[DeviceId, Answer]
    again: Answer
    together: tuple[Answer, ...]
    apart: tuple[tuple[DeviceId, DeviceId], Answer] | None
    host: HostFacts

    @property
    def answers(self) -> Iterator[tuple[str, Answer]]:
        """All calls, each with what was asked for."""
        yield from ((f"device {each!r}", answer) for each, answer in self.alone.items())
        yield "the first device again", self.again
        yield from (("several devices", answer) for answer in self.together)
        if self.apart is not None:
            yield "two containers", self.apart[1]

    @property
    def is_given_once(self) -> bool:
        """Whether the first device was allocated, and refused when it was asked for once more."""
        once, *_ = self.alone.values()
        return once.failure is None and self.again.failure is not None and not self.again.hung

    @property
    def edits(self) -> Iterator[tuple[str, ContainerEdits]]:
        """The edits in all answers for single devices and for several, each with what was asked for."""
        for asked, answer in self.answers:
            yield from ((asked, each) for each in answer.value or ())


@scene("Allocate", manner=Manner.OWN, own_s=CALL_S * (_MOST_DEVICES + 4))
async def ALLOCATE(stage: Stage) -> AllocateSeen:
    """Allocate each device, the first one twice, several for one container, and one each for two."""
    meeting = await stage.begin_with_devices()
    ids = meeting.healthy[:_MOST_DEVICES]
    patience_s = CALL_S

    async def allocate(*containers: Sequence[str]) -> Answer:
        nonlocal patience_s
        answer = await meeting.allocate(*containers, timeout_s=patience_s)
        patience_s = _AFTER_HANG_S if answer.hung else patience_s
        return answer

    alone = {each: await allocate([each]) for each in ids}
    again = await allocate([ids[0]])
    together: tuple[Answer, ...] = ()
    apart = None
    if len(ids) > 1:
        several = ids[:_MOST_TOGETHER]
        together = (await allocate(several), await allocate(several[::-1]))
        apart = ((ids[0], ids[1]), await allocate([ids[0]], [ids[1]]))
    seen = AllocateSeen(alone, again, together, apart, HostFacts())
    facts = await asyncio.to_thread(_facts, stage, [edits for _, edits in seen.edits])
    return AllocateSeen(alone, again, together, apart, facts)


def _facts(stage: Stage, all_edits: list[ContainerEdits]) -> HostFacts:
    paths = {node.host_path for edits in all_edits for node in edits.device_nodes}
    paths |= {mount.host_path for edits in all_edits for mount in edits.mounts}
    directories = (
        *default_directories(Path("/")),
        *stage.settings.cdi_directories,
        *stage.settings.command.cdi_directories(stage.root),
    )
    known = {str(name) for name in scan(directories).devices}
    asked = {str(name) for edits in all_edits for name in _names(edits)}
    return HostFacts(
        {path: _kind(stage.host_path(path)) for path in paths},
        tuple(sorted(asked - known)),
        tuple(map(str, directories)),
    )


def _names(edits: ContainerEdits) -> tuple[object, ...]:
    try:
        return names_of(edits.cdi_devices, edits.annotations)
    except InvalidCdiName:
        return ()


def _kind(path: Path) -> str:
    try:
        mode = path.stat().st_mode
    except OSError:
        return "missing"
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISFIFO(mode):
        return "device"
    if stat.S_ISDIR(mode):
        return "devices" if _holds_devices(path) else "directory"
    return "file" if stat.S_ISREG(mode) else "other"


def _holds_devices(directory: Path) -> bool:
    """Whether a container gets a device from ``directory``, which stands for all devices below it, links aside.

    Source: containerd 2.1 ``pkg/oci/utils_unix.go``, ``getDevices``.
    """
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _LEFT_OUT and _holds_devices(Path(entry.path)):
                    return True
            elif entry.name != _CONSOLE and _is_device(entry):
                return True
    return False


def _is_device(entry: os.DirEntry[str]) -> bool:
    mode = entry.stat(follow_symlinks=False).st_mode
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


@rule(
    401,
    "Every device that is offered as healthy can be allocated",
    RuleSeverity.MUST,
    source=f"{_MANAGER}, devicesToAllocate: any healthy device may be chosen, and an error fails the pod",
    scene=ALLOCATE,
)
def allocates_each(seen: AllocateSeen) -> Iterator[str]:
    for each, answer in seen.alone.items():
        if answer.failure is not None and not answer.hung:
            yield f"Allocate of {each!r}: {answer.failure}"


@rule(
    402,
    "Several devices can be allocated to one container",
    RuleSeverity.MUST,
    source=f"{_API}, ContainerAllocateRequest.devices_ids is a list; a pod may ask for more than one",
    scene=ALLOCATE,
)
def allocates_several(seen: AllocateSeen) -> Iterator[str]:
    if not seen.together:
        raise NotApplicable("there is one device")
    if seen.is_given_once:
        raise NotApplicable(GIVEN_ONCE)
    for answer in seen.together:
        if answer.failure is not None and not answer.hung:
            yield f"Allocate of several devices for one container: {answer.failure}"
            return


@rule(
    403,
    "An answer has one response for each container asked for",
    RuleSeverity.MUST,
    source=f"{_MANAGER}, allocateContainerResources: without a response the pod fails, of several the first is taken",
    scene=ALLOCATE,
)
def answers_each_container(seen: AllocateSeen) -> Iterator[str]:
    for asked, answer in seen.answers:
        wanted = 2 if asked == "two containers" else 1
        if answer.value is not None and len(answer.value) != wanted:
            yield f"Allocate for {asked} has {len(answer.value)} container responses, {wanted} asked for"
            return


@rule(
    404,
    "Responses come in the order of the containers asked for",
    RuleSeverity.SHOULD,
    source=f"{_API}, AllocateRequest and AllocateResponse: nothing but their order joins them",
    scene=ALLOCATE,
)
def answers_in_order(seen: AllocateSeen) -> Iterator[str]:
    if seen.apart is None:
        raise NotApplicable("there is one device")
    if seen.is_given_once:
        raise NotApplicable(GIVEN_ONCE)
    (one, other), answer = seen.apart
    expected = tuple(first for each in (one, other) if (first := _only(seen.alone[each])) is not None)
    if answer.hung:
        raise NotApplicable("a request for two containers is not answered (PB425)")
    if answer.failure is not None:
        yield f"a request for two containers fails: {answer.failure}"
    elif answer.value is None or len(answer.value) != 2 or len(expected) != 2:
        raise NotApplicable("the answer does not have two responses")
    elif _only(seen.again) != expected[0]:
        raise NotApplicable("answers for the same device differ")
    elif answer.value != expected:
        swapped = " (that of the other container)" if answer.value == expected[::-1] else ""
        yield f"the response for {one!r} in a request for two containers is not the one it gets alone{swapped}"


@rule(
    409,
    "The same device gets the same answer",
    RuleSeverity.INFO,
    source="kubelet 1.36 stores one answer, and gives it to each start of the container; pod_devices.go",
    scene=ALLOCATE,
)
def answers_the_same(seen: AllocateSeen) -> Iterator[str]:
    first, again = _only(next(iter(seen.alone.values()))), _only(seen.again)
    if first is None or again is None:
        raise NotApplicable("there are no two answers to compare")
    if first != again:
        yield f"two calls for {next(iter(seen.alone))!r} were answered differently: {_difference(first, again)}"


@rule(
    410,
    "The order of devices in a request does not matter",
    RuleSeverity.SHOULD,
    source=f"{_MANAGER}: devices are a set, and come in random order",
    scene=ALLOCATE,
)
def heeds_no_order(seen: AllocateSeen) -> Iterator[str]:
    one, other = (_only(each) for each in seen.together) if seen.together else (None, None)
    if one is None or other is None:
        raise NotApplicable("there are no two answers to compare")
    if _only(next(iter(seen.alone.values()))) != _only(seen.again):
        raise NotApplicable("answers for the same device differ")
    for what, before, after in (
        ("device nodes", one.device_nodes, other.device_nodes),
        ("mounts", one.mounts, other.mounts),
        ("CDI devices", one.cdi_devices, other.cdi_devices),
        ("variables", tuple(one.env), tuple(other.env)),
    ):
        if set(before) != set(after):
            yield f"the same devices in another order get other {what}"


@rule(
    424,
    "Allocate is quick",
    RuleSeverity.SHOULD,
    source=f"{_MANAGER}: no other pod is admitted to the node meanwhile",
    scene=ALLOCATE,
    is_timed=True,
)
def is_quick(seen: AllocateSeen) -> Iterator[str]:
    asked, slowest = max(seen.answers, key=lambda each: each[1].took_s)
    if slowest.took_s > _QUICK_S and not slowest.hung:
        yield f"Allocate of {asked} took {slowest.took_s:.1f} s"


@rule(
    425,
    "Allocate has an end",
    RuleSeverity.MUST,
    source=f"{_MANAGER}: the call has no time limit, and no pod is admitted to the node meanwhile",
    scene=ALLOCATE,
    is_timed=True,
)
def does_not_hang(seen: AllocateSeen) -> Iterator[str]:
    for asked, answer in seen.answers:
        if answer.hung:
            yield f"Allocate of {asked} was not answered in {answer.took_s:.0f} s"
            return


@rule(
    426,
    "A device can be allocated again, though nothing tells that its use is over",
    RuleSeverity.MUST,
    source=f"{_API} has no call for the end of a pod; {_MANAGER} gives the device of a pod that ended to the next one",
    scene=ALLOCATE,
)
def allocates_again(seen: AllocateSeen) -> Iterator[str]:
    device, answer = next(iter(seen.alone.items()))
    if answer.failure is not None:
        raise NotApplicable("Allocate fails the first time, too (PB401)")
    if seen.is_given_once:
        yield f"{device!r} was allocated, and a second Allocate of it fails: {seen.again.failure}"


def _only(answer: Answer) -> ContainerEdits | None:
    """The one response in an answer; None if there is another number of them."""
    return answer.value[0] if answer.value is not None and len(answer.value) == 1 else None


def _difference(one: ContainerEdits, other: ContainerEdits) -> str:
    names = [
        name
        for name, before, after in (
            ("env", one.env, other.env),
            ("mounts", one.mounts, other.mounts),
            ("device nodes", one.device_nodes, other.device_nodes),
            ("annotations", one.annotations, other.annotations),
            ("CDI devices", one.cdi_devices, other.cdi_devices),
        )
        if before != after
    ]
    return ", ".join(names)
