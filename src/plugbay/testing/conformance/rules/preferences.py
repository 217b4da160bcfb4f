"""GetPreferredAllocation: the plugin's choice is one that a kubelet can take as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from plugbay.errors import RpcCode
from plugbay.model.ids import DeviceId
from plugbay.testing.conformance.probe.answers import CallSeen
from plugbay.testing.conformance.probe.meeting import Meeting
from plugbay.testing.conformance.reasons import NotApplicable
from plugbay.testing.conformance.rule import RuleSeverity, rule, scene
from plugbay.testing.conformance.stage import Stage
from plugbay.values import dataclass
from plugbay.wire.plugin_server import PreferenceRequest

_MANAGER: Final = "kubelet 1.36 pkg/kubelet/cm/devicemanager/manager.go, callGetPreferredAllocationIfAvailable"
_CHOICE: Final = "kubelet 1.36 pkg/kubelet/cm/devicemanager/manager.go, devicesToAllocate"
_API: Final = "deviceplugin/v1beta1 api.proto, GetPreferredAllocation"
MANY: Final = 1_000
"""So many devices are offered at once: a node with shared or partitioned devices has that many."""
MANY_S: Final = 1.0
_MOST: Final = 32
"""The devices of the other requests: no more are needed to tell a good choice from a bad one."""
_STRANGER: Final = DeviceId("plugbay-conform-unknown")


@dataclass(frozen=True, slots=True)
class PreferenceSeen:
    """One GetPreferredAllocation call for one container, and its answer."""

    request: PreferenceRequest
    answer: CallSeen[tuple[tuple[DeviceId, ...], ...]]

    @property
    def chosen(self) -> tuple[DeviceId, ...]:
        """The IDs in the answer; none means that the plugin prefers nothing."""
        return self.answer.value[0] if self.answer.value else ()

    def __str__(self) -> str:
        must = f" with {_named(self.request.must_include)}" if self.request.must_include else ""
        return (
            f"asked for {self.request.size} of {_named(self.request.available)}{must}, it prefers {_named(self.chosen)}"
        )


@dataclass(frozen=True, slots=True)
class PreferencesSeen:
    """Answers of a plugin that is asked in all the ways in which a kubelet asks.

    Attributes:
        is_announced: whether its options say that it may be asked.
        asked: calls that differ in their sizes, and in what is available and must be included.
        again: the last of them once more.
        turned: the last of them, with the devices in another order.
        many: a call with a thousand devices, of which the plugin may know but a few.
        stranger: a call with a device that it does not know.
        lives: whether it answers a call after that.
    """

    is_announced: bool
    asked: tuple[PreferenceSeen, ...]
    again: PreferenceSeen | None = None
    turned: PreferenceSeen | None = None
    many: PreferenceSeen | None = None
    stranger: PreferenceSeen | None = None
    lives: bool = True

    def answered(self) -> Iterator[PreferenceSeen]:
        """The calls that had an answer with a preference.

        Raises:
            NotApplicable: the plugin is not to be asked, or does not answer.
        """
        if not self.is_announced:
            raise NotApplicable("the plugin does not announce get_preferred_allocation_available")
        if all(each.answer.failure for each in self.asked):
            raise NotApplicable(f"GetPreferredAllocation fails (PB204, PB509): {self.asked[0].answer.text}")
        return (each for each in self.asked if each.chosen)


def requests(ids: Sequence[DeviceId]) -> list[PreferenceRequest]:
    """Requests that a kubelet could make of a plugin with these devices, all of them free or some in use."""
    half = len(ids) // 2
    sizes = sorted({1, (len(ids) + 1) // 2, len(ids)})
    made = [PreferenceRequest(tuple(ids), (), size) for size in sizes]
    if half:
        made += [PreferenceRequest(tuple(ids[half:]), (), max(1, (len(ids) - half) // 2))]
        made += [PreferenceRequest(tuple(ids), (ids[-1],), 2), PreferenceRequest(tuple(ids), (), half)]
    return made


@scene("preferred allocations")
async def PREFERENCES(stage: Stage) -> PreferencesSeen:
    """Ask the plugin for its preferences."""
    meeting = await stage.begin_with_devices()
    is_announced = meeting.options.get_preferred_allocation_available
    ids = sorted(meeting.healthy)[:_MOST]
    if not is_announced:
        return PreferencesSeen(is_announced, ())
    asked = [await _ask(meeting, each) for each in requests(ids)]
    last = asked[-1].request
    again = await _ask(meeting, last)
    turned = await _ask(meeting, PreferenceRequest(last.available[::-1], (), last.size))
    known = sorted(meeting.healthy)[:MANY]
    padding = (DeviceId(f"{_STRANGER}-{number}") for number in range(MANY - len(known)))
    many = await _ask(meeting, PreferenceRequest((*known, *padding), (), max(1, len(known) // 2)))
    stranger = await _ask(meeting, PreferenceRequest((_STRANGER,), (), 1))
    lives = (await meeting.ask_options()).failure is None
    return PreferencesSeen(is_announced, tuple(asked), again, turned, many, stranger, lives)


async def _ask(meeting: Meeting, request: PreferenceRequest) -> PreferenceSeen:
    return PreferenceSeen(request, await meeting.prefer(request))


@rule(
    501,
    "A preference has as many devices as were asked for",
    RuleSeverity.SHOULD,
    source=f"{_API}; {_CHOICE}: a smaller preference is filled up, and some of a larger one taken, at random",
    scene=PREFERENCES,
)
def has_size(seen: PreferencesSeen) -> Iterator[str]:
    yield from (f"{each}" for each in seen.answered() if len({*each.chosen}) != each.request.size)


@rule(
    502,
    "A preference includes the devices that it must include",
    RuleSeverity.SHOULD,
    source=f"{_API}; {_CHOICE}: those are taken already, so that fewer of the preferred ones are",
    scene=PREFERENCES,
)
def keeps_must_include(seen: PreferencesSeen) -> Iterator[str]:
    yield from (f"{each}" for each in seen.answered() if not {*each.request.must_include} <= {*each.chosen})


@rule(
    503,
    "A preference has available devices alone",
    RuleSeverity.SHOULD,
    source=f"{_API}; {_CHOICE}: others are dropped without a word, and any devices taken in their place",
    scene=PREFERENCES,
)
def is_available(seen: PreferencesSeen) -> Iterator[str]:
    yield from (f"{each}" for each in seen.answered() if not {*each.chosen} <= {*each.request.available})


@rule(
    504,
    "The same question has the same preference",
    RuleSeverity.INFO,
    source=f"{_API}; {_CHOICE}: a preference that changes is as good as a kubelet's own random choice",
    scene=PREFERENCES,
)
def is_stable(seen: PreferencesSeen) -> Iterator[str]:
    *_, first = (None, *seen.answered())
    again = seen.again
    if (
        first is not None
        and again is not None
        and first.request == again.request
        and {*first.chosen} != {*again.chosen}
    ):
        yield f"{first}; asked again, {_named(again.chosen)}"


@rule(
    505,
    f"A preference among {MANY:,} devices is there within {MANY_S:g} s",
    RuleSeverity.SHOULD,
    source=f"{_MANAGER}: the call has no time limit, and no pod of the node is admitted meanwhile",
    scene=PREFERENCES,
    is_timed=True,
)
def is_quick(seen: PreferencesSeen) -> Iterator[str]:
    seen.answered()
    if seen.many is not None and seen.many.answer.took_s > MANY_S:
        yield f"asked for {seen.many.request.size} of {MANY} devices, it took {seen.many.answer.took_s:.1f} s"


@rule(
    506,
    "A question with an unknown device does not end the plugin",
    RuleSeverity.MUST,
    source=f"{_MANAGER}: it asks for a device that the plugin has just withdrawn, while the list is under way",
    scene=PREFERENCES,
)
def survives_strangers(seen: PreferencesSeen) -> Iterator[str]:
    seen.answered()
    for each in (seen.many, seen.stranger):
        if each is not None and each.answer.was_cut:
            yield f"asked about a device that it does not know, it broke the connection: {each.answer.text}"
            return
    if not seen.lives:
        yield "after a question about a device that it does not know, it answers no call"


@rule(
    507,
    "A preference does not depend on the order of the devices in the question",
    RuleSeverity.INFO,
    source=f"{_MANAGER}: the devices of a question come from a set, in random order",
    scene=PREFERENCES,
)
def ignores_order(seen: PreferencesSeen) -> Iterator[str]:
    *_, first = (None, *seen.answered())
    if first is None or seen.again is None or {*first.chosen} != {*seen.again.chosen}:
        raise NotApplicable("the same question has no stable answer (PB504)")
    turned = seen.turned
    if turned is not None and turned.chosen and {*turned.chosen} != {*first.chosen}:
        yield f"{first}; asked in the opposite order, {_named(turned.chosen)}"


@rule(
    509,
    "Every question for a preference that a kubelet may ask is answered",
    RuleSeverity.MUST,
    source=f"{_MANAGER}: an error refuses the pod for good; 'device plugin GetPreferredAllocation rpc failed'",
    scene=PREFERENCES,
)
def answers(seen: PreferencesSeen) -> Iterator[str]:
    if not seen.is_announced:
        raise NotApplicable("the plugin does not announce get_preferred_allocation_available")
    for each in seen.asked:
        if each.answer.failure is not None:
            if each.answer.failure.code is RpcCode.UNIMPLEMENTED:
                raise NotApplicable("the plugin has no GetPreferredAllocation (PB204)")
            devices = _named(each.request.available)
            yield f"asked for {each.request.size} of {devices}, it fails: {each.answer.text}"
            return


def _named(ids: Sequence[str]) -> str:
    shown = [repr(each) for each in ids[:4]]
    if len(ids) > 4:
        shown.append(f"{len(ids) - 4} more")
    return ", ".join(shown) or "nothing"
