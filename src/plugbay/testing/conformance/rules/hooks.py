"""PreStartContainer, PostStopContainer and Deallocate: calls around the life of a container, which may come again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plugbay.errors import RpcCode
from plugbay.model.devices import PluginOptions
from plugbay.testing.conformance.probe.answers import CallSeen
from plugbay.testing.conformance.probe.meeting import Meeting
from plugbay.testing.conformance.reasons import CannotJudge, NotApplicable
from plugbay.testing.conformance.rule import Manner, RuleSeverity, rule, scene
from plugbay.testing.conformance.stage import Stage
from plugbay.values import dataclass

HOOK_S: Final = 5.0
"""The time that we wait for one of these calls. A kubelet gives PreStartContainer 30 s, before it fails the start."""
_STRANGER: Final = "plugbay-conform-unknown"
_MANAGER: Final = "kubelet 1.36 pkg/kubelet/cm/devicemanager/manager.go"
_PRE_START: Final = f"{_MANAGER}, callPreStartContainerIfNeeded"
_RELEASE: Final = "docs/kep-deallocate.md"


@dataclass(frozen=True, slots=True)
class HookSeen:
    """One kind of call, made three times.

    Attributes:
        first: for a device.
        again: the same once more; None if the first one failed.
        unknown: for a device that the plugin does not know; None if the first one was not answered.
        lives: whether the plugin answers a call after that.
    """

    first: CallSeen[None]
    again: CallSeen[None] | None = None
    unknown: CallSeen[None] | None = None
    lives: bool = True


@dataclass(frozen=True, slots=True)
class HooksSeen:
    """The calls around a container with one device, in their order.

    Attributes:
        device: the device.
        early: PreStartContainer before any Allocate of this process.
        failed_allocate: the text of the error of Allocate in between; empty if it was answered.
        pre_start, post_stop, deallocate: None if they are not announced.
        allocated_again: Allocate for the device after Deallocate.
    """

    options: PluginOptions
    device: str
    failed_allocate: str = ""
    early: CallSeen[None] | None = None
    pre_start: HookSeen | None = None
    post_stop: HookSeen | None = None
    deallocate: HookSeen | None = None
    allocated_again: str = ""

    def announced(self, hook: HookSeen | None, call: str) -> HookSeen:
        """The calls of one kind.

        Raises:
            NotApplicable: the plugin does not announce it.
            CannotJudge: Allocate failed before.
        """
        if self.failed_allocate:
            raise CannotJudge(f"Allocate of {self.device!r} fails: {self.failed_allocate}")
        if hook is None:
            raise NotApplicable(f"the plugin does not announce {call}")
        return hook


@scene("calls around a container", manner=Manner.OWN)
async def HOOKS(stage: Stage) -> HooksSeen:
    """Make the calls of a container's life, and each of them once more."""
    meeting = await stage.begin_with_devices()
    options, device = meeting.options, meeting.healthy[0]
    early = await meeting.pre_start([device], timeout_s=HOOK_S) if options.pre_start_required else None
    if (failure := (await meeting.allocate([device], timeout_s=HOOK_S)).failure) is not None:
        return HooksSeen(options, device, str(failure))
    pre_start = await _pre_start(meeting, device) if options.pre_start_required else None
    if pre_start is not None and not pre_start.lives:
        return HooksSeen(options, device, early=early, pre_start=pre_start)
    post_stop = await _post_stop(meeting, device) if options.post_stop_required else None
    deallocate = await _deallocate(meeting, device) if options.deallocate_required else None
    allocated_again = await meeting.allocate([device], timeout_s=HOOK_S)
    return HooksSeen(
        options,
        device,
        early=early,
        pre_start=pre_start,
        post_stop=post_stop,
        deallocate=deallocate,
        allocated_again="" if allocated_again.failure is None else allocated_again.text,
    )


async def _pre_start(meeting: Meeting, device: str) -> HookSeen:
    first = await meeting.pre_start([device], timeout_s=HOOK_S)
    if first.hung:
        return HookSeen(first)
    again = await meeting.pre_start([device], timeout_s=HOOK_S) if first.failure is None else None
    unknown = await meeting.pre_start([_STRANGER], timeout_s=HOOK_S)
    return HookSeen(first, again, unknown, (await meeting.ask_options()).failure is None)


async def _post_stop(meeting: Meeting, device: str) -> HookSeen:
    first = await meeting.post_stop([device], "conform-stop-1", timeout_s=HOOK_S)
    if first.failure is not None:
        return HookSeen(first)
    again = await meeting.post_stop([device], "conform-stop-1", timeout_s=HOOK_S)
    return HookSeen(first, again, await meeting.post_stop([_STRANGER], "conform-stop-2", timeout_s=HOOK_S))


async def _deallocate(meeting: Meeting, device: str) -> HookSeen:
    first = await meeting.deallocate([device], "conform-end-1", timeout_s=HOOK_S)
    if first.failure is not None:
        return HookSeen(first)
    again = await meeting.deallocate([device], "conform-end-1", timeout_s=HOOK_S)
    return HookSeen(first, again, await meeting.deallocate([_STRANGER], "conform-end-2", timeout_s=HOOK_S))


# --- PreStartContainer ----------------------------------------------------------------------------------------------


@rule(
    601,
    "PreStartContainer succeeds for devices that are allocated",
    RuleSeverity.MUST,
    source=f"{_PRE_START}: an error fails the start; 'device plugin PreStartContainer rpc failed'",
    scene=HOOKS,
)
def pre_start_answers(seen: HooksSeen) -> Iterator[str]:
    hook = seen.announced(seen.pre_start, "pre_start_required")
    if hook.first.failure is None or hook.first.hung or _succeeded(seen.early):
        return
    if hook.first.failure.code is RpcCode.UNIMPLEMENTED:
        raise NotApplicable("the plugin has no PreStartContainer (PB205)")
    yield f"PreStartContainer of {seen.device!r}, allocated before, fails: {hook.first.text}"


@rule(
    602,
    f"PreStartContainer takes less than {HOOK_S:g} s",
    RuleSeverity.SHOULD,
    source=f"{_PRE_START}: a kubelet waits 30 s, then it fails the start of the container and tries again",
    scene=HOOKS,
    is_timed=True,
)
def pre_start_is_quick(seen: HooksSeen) -> Iterator[str]:
    hook = seen.announced(seen.pre_start, "pre_start_required")
    if hook.first.hung:
        yield f"PreStartContainer of {seen.device!r} was not answered within {HOOK_S:g} s"


@rule(
    603,
    "PreStartContainer can be called again for the same devices",
    RuleSeverity.MUST,
    source=f"{_PRE_START}: it is called each time that a container is created, with no other call in between",
    scene=HOOKS,
)
def pre_start_repeats(seen: HooksSeen) -> Iterator[str]:
    hook = seen.announced(seen.pre_start, "pre_start_required")
    again = hook.first if _succeeded(seen.early) else hook.again
    if again is not None and again.failure is not None and not again.hung:
        yield f"PreStartContainer of {seen.device!r} is answered once, and then fails: {again.text}"


@rule(
    604,
    "PreStartContainer for an unknown device does not end the plugin",
    RuleSeverity.MUST,
    source=f"{_PRE_START}: a container that starts again names its devices, listed any more or not",
    scene=HOOKS,
)
def pre_start_survives_strangers(seen: HooksSeen) -> Iterator[str]:
    hook = seen.announced(seen.pre_start, "pre_start_required")
    if hook.unknown is not None and (hook.unknown.was_cut or not hook.lives):
        yield f"after PreStartContainer of a device that it does not know, the plugin is gone: {hook.unknown.text}"


@rule(
    605,
    "PreStartContainer needs no Allocate to the same process before",
    RuleSeverity.MUST,
    source=f"{_MANAGER}, GetDeviceRunContainerOptions: devices outlast a plugin's restart, and no Allocate comes again",
    scene=HOOKS,
)
def pre_start_needs_no_allocate(seen: HooksSeen) -> Iterator[str]:
    hook = seen.announced(seen.pre_start, "pre_start_required")
    if hook.first.failure is not None or seen.early is None:
        raise NotApplicable("PreStartContainer fails after Allocate, too")
    if seen.early.failure is not None:
        yield f"a new process of the plugin fails PreStartContainer of {seen.device!r}: {seen.early.text}"


# --- the calls of the Deallocate proposal ---------------------------------------------------------------------------


@rule(
    606,
    "A plugin that announces PostStopContainer answers it",
    RuleSeverity.SHOULD,
    source=f"{_RELEASE}: without an answer it is called again and again, or taken for done",
    scene=HOOKS,
)
def post_stop_answers(seen: HooksSeen) -> Iterator[str]:
    yield from _unanswered(seen, seen.announced(seen.post_stop, "post_stop_required"), "PostStopContainer")


@rule(
    607,
    "PostStopContainer can be called again with the same operation",
    RuleSeverity.SHOULD,
    source=f"{_RELEASE}: each call is made at least once",
    scene=HOOKS,
)
def post_stop_repeats(seen: HooksSeen) -> Iterator[str]:
    yield from _refuses_repeat(seen, seen.announced(seen.post_stop, "post_stop_required"), "PostStopContainer")


@rule(
    608,
    "PostStopContainer for an unknown device is answered",
    RuleSeverity.SHOULD,
    source=f"{_RELEASE}: the plugin may have been started anew, or the device be gone",
    scene=HOOKS,
)
def post_stop_takes_strangers(seen: HooksSeen) -> Iterator[str]:
    yield from _refuses_strangers(seen.announced(seen.post_stop, "post_stop_required"), "PostStopContainer")


@rule(
    609,
    "A plugin that announces Deallocate answers it",
    RuleSeverity.SHOULD,
    source=f"{_RELEASE}: without an answer the device stays out of use for long",
    scene=HOOKS,
)
def deallocate_answers(seen: HooksSeen) -> Iterator[str]:
    yield from _unanswered(seen, seen.announced(seen.deallocate, "deallocate_required"), "Deallocate")


@rule(
    610,
    "Deallocate can be called again with the same operation",
    RuleSeverity.SHOULD,
    source=f"{_RELEASE}: each call is made at least once",
    scene=HOOKS,
)
def deallocate_repeats(seen: HooksSeen) -> Iterator[str]:
    yield from _refuses_repeat(seen, seen.announced(seen.deallocate, "deallocate_required"), "Deallocate")


@rule(
    611,
    "Deallocate for an unknown device is answered",
    RuleSeverity.SHOULD,
    source=f"{_RELEASE}: the plugin may have been started anew, or the device be gone",
    scene=HOOKS,
)
def deallocate_takes_strangers(seen: HooksSeen) -> Iterator[str]:
    yield from _refuses_strangers(seen.announced(seen.deallocate, "deallocate_required"), "Deallocate")


@rule(
    612,
    f"PostStopContainer and Deallocate take less than {HOOK_S:g} s",
    RuleSeverity.SHOULD,
    source=f"{_RELEASE}: the end of a pod waits for them, one attempt at most 30 s",
    scene=HOOKS,
    is_timed=True,
)
def release_is_quick(seen: HooksSeen) -> Iterator[str]:
    calls = {"PostStopContainer": seen.post_stop, "Deallocate": seen.deallocate}
    if not any(calls.values()):
        raise NotApplicable("the plugin announces neither")
    for call, hook in calls.items():
        if hook is not None and hook.first.hung:
            yield f"{call} of {seen.device!r} was not answered within {HOOK_S:g} s"


@rule(
    613,
    "A device can be allocated again after Deallocate",
    RuleSeverity.MUST,
    source=f"{_RELEASE}: it goes back to the pool once the call is answered",
    scene=HOOKS,
)
def deallocated_is_free(seen: HooksSeen) -> Iterator[str]:
    hook = seen.announced(seen.deallocate, "deallocate_required")
    if hook.first.failure is None and seen.allocated_again:
        yield f"Allocate of {seen.device!r} after its Deallocate fails: {seen.allocated_again}"


def _succeeded(call: CallSeen[None] | None) -> bool:
    return call is not None and call.failure is None


def _unanswered(seen: HooksSeen, hook: HookSeen, call: str) -> Iterator[str]:
    if hook.first.failure is None or hook.first.hung:
        return
    why = ", as if it were not announced" if hook.first.failure.code is RpcCode.UNIMPLEMENTED else ""
    yield f"{call} of {seen.device!r} fails{why}: {hook.first.text}"


def _refuses_repeat(seen: HooksSeen, hook: HookSeen, call: str) -> Iterator[str]:
    if hook.again is not None and hook.again.failure is not None:
        yield f"{call} of {seen.device!r} with the same operation again fails: {hook.again.text}"


def _refuses_strangers(hook: HookSeen, call: str) -> Iterator[str]:
    if hook.unknown is not None and hook.unknown.failure is not None:
        yield f"{call} of a device that the plugin does not know fails: {hook.unknown.text}"
