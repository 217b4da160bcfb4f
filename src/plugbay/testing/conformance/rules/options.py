"""Options: what a plugin announces, and whether it has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from plugbay.errors import RpcCode
from plugbay.model.devices import PluginOptions
from plugbay.model.ids import DeviceId
from plugbay.testing.conformance.probe.answers import CallSeen
from plugbay.testing.conformance.reasons import NotApplicable
from plugbay.testing.conformance.rule import RuleSeverity, rule, scene
from plugbay.testing.conformance.stage import Stage
from plugbay.values import dataclass
from plugbay.wire.plugin_server import PreferenceRequest

_API: Final = "Kubernetes 1.36 pkg/kubelet/apis/deviceplugin/v1beta1/api.proto"
_SERVER: Final = "kubelet 1.36 pkg/kubelet/cm/devicemanager/plugin/v1beta1/server.go"
_MANAGER: Final = "kubelet 1.36 pkg/kubelet/cm/devicemanager/manager.go"
_PROMPT_S: Final = 1.0
"""The options wait for nothing. A kubelet asks for them inside Register, and has no limit of its own."""

_ENDS_S: Final = 1.0
"""A process that was killed by what it was asked is gone by then."""


@dataclass(frozen=True, slots=True)
class OptionsSeen:
    """The options, and a call of each method that they announce or do not.

    Attributes:
        at_registration: the options that the kubelet got when it dialled the plugin.
        again: the options now, asked twice.
        preferred: GetPreferredAllocation of one device; None if there is no device to ask for.
        pre_started: PreStartContainer after an Allocate of a device; None if that was not to be had.
        unknown: a method that no version of the API has.
    """

    at_registration: PluginOptions
    again: tuple[CallSeen[PluginOptions], ...]
    preferred: CallSeen[tuple[tuple[DeviceId, ...], ...]] | None
    pre_started: CallSeen[None] | None
    unknown: CallSeen[None]
    unknown_left_it_alive: bool


@scene("options")
async def OPTIONS(stage: Stage) -> OptionsSeen:
    """Ask for the options, and call what they announce."""
    meeting = await stage.begin()
    await meeting.until(lambda: bool(meeting.healthy), 1.0)
    again = (await meeting.ask_options(), await meeting.ask_options())
    preferred, pre_started = None, None
    if meeting.healthy:
        preferred = await meeting.prefer(PreferenceRequest(meeting.healthy, (), 1))
        if meeting.options.pre_start_required:
            allocated = await meeting.allocate(meeting.healthy[:1])
            pre_started = await meeting.pre_start(meeting.healthy[:1]) if allocated.failure is None else None
    unknown = await meeting.ask_unknown()
    alive = (await meeting.ask_options()).failure is None
    if not alive and not await stage.subject.until_ended(_ENDS_S):
        await stage.subject.end()  # the scenes after this one get a plugin that answers
    return OptionsSeen(meeting.options, again, preferred, pre_started, unknown, alive)


@rule(
    202,
    "GetDevicePluginOptions is answered at once",
    RuleSeverity.SHOULD,
    source=f"{_SERVER}: it is called inside Register, without a limit of its own",
    scene=OPTIONS,
    is_timed=True,
)
def answers_options_at_once(seen: OptionsSeen) -> Iterator[str]:
    slow = max(each.took_s for each in seen.again)
    if slow > _PROMPT_S:
        yield f"GetDevicePluginOptions took {slow:.1f} s"
    yield from (f"GetDevicePluginOptions failed: {each.failure}" for each in seen.again if each.failure is not None)


@rule(
    203,
    "The options stay what they were at the registration",
    RuleSeverity.SHOULD,
    source=f"{_SERVER}: a kubelet asks for them once for each registration",
    scene=OPTIONS,
)
def keeps_options(seen: OptionsSeen) -> Iterator[str]:
    for each in seen.again:
        if each.value is not None and each.value != seen.at_registration:
            yield f"the options were {seen.at_registration} at the registration, and are {each.value} now"


@rule(
    204,
    "GetPreferredAllocation is there if it is announced",
    RuleSeverity.MUST,
    source=f"{_MANAGER}, callGetPreferredAllocationIfAvailable: its failure fails the pod",
    scene=OPTIONS,
)
def has_preferences(seen: OptionsSeen) -> Iterator[str]:
    if not seen.at_registration.get_preferred_allocation_available:
        raise NotApplicable("the plugin does not announce GetPreferredAllocation")
    if seen.preferred is None:
        raise NotApplicable("there is no healthy device to ask for")
    if _is_missing(seen.preferred):
        yield f"get_preferred_allocation_available is set, and GetPreferredAllocation answers {seen.preferred.failure}"


@rule(
    205,
    "PreStartContainer is there if it is announced",
    RuleSeverity.MUST,
    source=f"{_MANAGER}, callPreStartContainerIfNeeded: its failure keeps the container from starting",
    scene=OPTIONS,
)
def has_pre_start(seen: OptionsSeen) -> Iterator[str]:
    if not seen.at_registration.pre_start_required:
        raise NotApplicable("the plugin does not announce PreStartContainer")
    if seen.pre_started is None:
        raise NotApplicable("no device could be allocated before")
    if _is_missing(seen.pre_started):
        yield f"pre_start_required is set, and PreStartContainer answers {seen.pre_started.failure}"


@rule(
    206,
    "Preferences that a plugin has are announced",
    RuleSeverity.INFO,
    source=f"{_API}, DevicePluginOptions.get_preferred_allocation_available; {_MANAGER} asks nobody else",
    scene=OPTIONS,
)
def announces_preferences(seen: OptionsSeen) -> Iterator[str]:
    if seen.at_registration.get_preferred_allocation_available:
        return
    if seen.preferred is None:
        raise NotApplicable("there is no healthy device to ask for")
    if seen.preferred.value and any(seen.preferred.value):
        yield "GetPreferredAllocation prefers devices, but get_preferred_allocation_available is not set"


@rule(
    207,
    "A call that the plugin does not know is answered with UNIMPLEMENTED",
    RuleSeverity.SHOULD,
    source="gRPC status codes, https://grpc.io/docs/guides/status-codes/; newer kubelets may call newer methods",
    scene=OPTIONS,
)
def refuses_unknown_calls(seen: OptionsSeen) -> Iterator[str]:
    if not seen.unknown_left_it_alive:
        yield "the plugin does not answer any more after a call of a method that it does not have"
    elif not _is_missing(seen.unknown):
        yield f"a method that no version of the API has is answered with {seen.unknown.text}, not with UNIMPLEMENTED"


def _is_missing(call: CallSeen[Any]) -> bool:
    return call.failure is not None and call.failure.code is RpcCode.UNIMPLEMENTED
