"""Registration while the kubelet is absent, refuses or is slow; and the quiet time after a registration."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from plugbay.testing.conformance.probe.kubelet import Attempt, as_kubelet
from plugbay.testing.conformance.probe.meeting import SeenList
from plugbay.testing.conformance.reasons import CannotJudge
from plugbay.testing.conformance.rule import Manner, RuleSeverity, rule, scene
from plugbay.testing.conformance.stage import Stage
from plugbay.values import dataclass

_DOCS: Final = "https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/"
_SERVER: Final = "kubelet 1.36 pkg/kubelet/cm/devicemanager/plugin/v1beta1/server.go"
_ABSENT_S: Final = 2.0
_REFUSING_S: Final = 4.0
_STORM_PER_S: Final = 10
"""A kubelet, when it is the one to try again, pauses for at least half a second."""
_SLOW_S: Final = 5.0
"""A kubelet may dial a plugin for 10 s before it answers Register."""
_QUIET_S: Final = 5.0


# --- a kubelet that comes later -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LateKubelet:
    """A start before the kubelet's.

    Attributes:
        exit_code: how the plugin ended before it had registered; None if it did not.
        ended_after_s: the time until then.
        came: whether it registered when the kubelet was there.
        waited_s: the time that it had for that.
    """

    exit_code: int | None
    ended_after_s: float
    came: bool
    waited_s: float


@scene("kubelet comes late", manner=Manner.OWN, returns=1)
async def LATE_KUBELET(stage: Stage) -> LateKubelet:
    """Start the plugin with nothing at kubelet.sock, and the kubelet after it."""
    stage.kubelet.paths.device_plugins.mkdir(parents=True)
    subject = await stage.start_plugin()
    began = asyncio.get_running_loop().time()
    if not await subject.until_ended(_ABSENT_S):
        await stage.kubelet.listen()
        came = await stage.until_met_or_ended(stage.settings.start_again_s)
        if came or subject.is_running:
            return LateKubelet(None, 0.0, came, stage.settings.start_again_s)
    return LateKubelet(subject.exit_code, asyncio.get_running_loop().time() - began, came=False, waited_s=0.0)


@rule(
    109,
    "A plugin that starts before the kubelet registers when it comes, or ends with an error",
    RuleSeverity.MUST,
    source=f"{_DOCS} (handling kubelet restarts): a plugin that runs on without registering is lost to the node",
    scene=LATE_KUBELET,
)
def registers_late(seen: LateKubelet) -> Iterator[str]:
    if seen.came:
        return
    if seen.exit_code is None:
        yield f"the plugin runs, and has not registered in the {seen.waited_s:g} s since the kubelet listens"
    elif seen.exit_code == 0:
        yield "the plugin ended with exit code 0 because there was no kubelet: nothing tells that it failed"


@rule(
    111,
    "A plugin waits for a kubelet that is not there yet",
    RuleSeverity.SHOULD,
    source=f"{_DOCS} (deployment): plugins start with the node, in any order",
    scene=LATE_KUBELET,
)
def waits_for_the_kubelet(seen: LateKubelet) -> Iterator[str]:
    if seen.exit_code is not None:
        yield (
            f"the plugin ended after {seen.ended_after_s:.1f} s with exit code {seen.exit_code}, because there was no "
            "kubelet yet; restarts of its container are delayed by up to 5 minutes"
        )


# --- a kubelet that refuses -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RefusingKubelet:
    """A kubelet that refused every Register for a while, and then none.

    Attributes:
        attempts: the Register calls while it refused.
        came: whether the plugin registered afterwards.
        waited_s: the time that it had for that.
    """

    attempts: tuple[Attempt, ...]
    refused_s: float
    exit_code: int | None
    came: bool
    waited_s: float


@scene("kubelet refuses", manner=Manner.OWN, returns=1)
async def REFUSING_KUBELET(stage: Stage) -> RefusingKubelet:
    """Refuse every registration for a few seconds, and then accept."""
    kubelet = stage.kubelet
    kubelet.admit = lambda _: "failed to dial device plugin: context deadline exceeded"
    await kubelet.listen()
    subject = await stage.start_plugin()
    if not await kubelet.until(lambda: bool(_of(stage)), stage.settings.ready_timeout_s):
        raise CannotJudge(f"the plugin did not call Register for {stage.resource}{stage.why_silent()}")
    await subject.until_ended(_REFUSING_S)
    refused = tuple(_of(stage))
    kubelet.admit = as_kubelet
    came = await stage.until_met_or_ended(stage.settings.retry_timeout_s)
    exit_code = None if came else subject.exit_code
    return RefusingKubelet(refused, _REFUSING_S, exit_code, came, stage.settings.retry_timeout_s)


def _of(stage: Stage) -> list[Attempt]:
    return [each for each in stage.kubelet.attempts if each.request.resource_name == stage.resource]


@rule(
    110,
    "A plugin that is refused tries again, or ends with an error",
    RuleSeverity.MUST,
    source=f"{_SERVER}: Register fails when a dial is slow, and nothing tries again but the plugin",
    scene=REFUSING_KUBELET,
)
def tries_again(seen: RefusingKubelet) -> Iterator[str]:
    if seen.came:
        return
    if seen.exit_code is None:
        yield (
            f"the plugin runs on, and has not registered in {seen.waited_s:g} s after its Register call was refused: "
            "its devices are lost until it is started again"
        )
    elif seen.exit_code == 0:
        yield "the plugin ended with exit code 0 when its Register call was refused"


@rule(
    113,
    "A plugin that is refused pauses before it tries again",
    RuleSeverity.SHOULD,
    source="kubelet 1.36 pkg/kubelet/metrics: each call counts in device_plugin_registration_total; spec of back-off: "
    "pkg/kubelet/pluginmanager, 500 ms and more",
    scene=REFUSING_KUBELET,
)
def pauses(seen: RefusingKubelet) -> Iterator[str]:
    if len(seen.attempts) > seen.refused_s * _STORM_PER_S:
        yield f"Register was called {len(seen.attempts)} times in {seen.refused_s:g} s, while each call was refused"


# --- a kubelet that is slow -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SlowKubelet:
    """A kubelet that took some seconds to answer Register.

    Attributes:
        attempts: the Register calls until one was accepted, or the time was over.
        came: whether one was accepted, and the plugin then listed its devices.
    """

    attempts: int
    came: bool
    exit_code: int | None


@scene("kubelet answers late", manner=Manner.OWN)
async def SLOW_KUBELET(stage: Stage) -> SlowKubelet:
    """Answer Register late."""
    stage.kubelet.delay_s = _SLOW_S
    await stage.kubelet.listen()
    subject = await stage.start_plugin()
    came = await stage.until_met_or_ended(stage.settings.ready_timeout_s + 2 * _SLOW_S)
    return SlowKubelet(len(_of(stage)), came, subject.exit_code)


@rule(
    112,
    "A plugin waits for the answer of a slow kubelet",
    RuleSeverity.SHOULD,
    source=f"{_SERVER}: a kubelet dials the plugin for up to 10 s before it answers",
    scene=SLOW_KUBELET,
)
def waits_for_the_answer(seen: SlowKubelet) -> Iterator[str]:
    if seen.came:
        return
    ended = "" if seen.exit_code is None else f", and ended with exit code {seen.exit_code}"
    yield f"the plugin did not register with a kubelet that answers after {_SLOW_S:g} s ({seen.attempts} calls){ended}"


# --- quiet ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QuietTime:
    """Some seconds after a registration in which nothing was done.

    Attributes:
        watched_s: the time.
        again: the Register calls in it.
        lists: the lists since the registration, the first one included.
        stream_end: how the stream ended; empty if it did not.
        exit_code: how the plugin ended; None if it did not.
    """

    watched_s: float
    again: int
    lists: tuple[SeenList, ...]
    stream_end: str
    exit_code: int | None


@scene("nothing happens", manner=Manner.OWN)
async def QUIET(stage: Stage) -> QuietTime:
    """Register, and do nothing for some seconds."""
    meeting = await stage.begin()
    known = len(_of(stage))
    await meeting.until(lambda: False, _QUIET_S)
    # A stream that has ended lets the plugin register again, which is another rule's matter.
    again = 0 if meeting.ended.is_set() else len(_of(stage)) - known
    end = "" if not meeting.ended.is_set() else str(meeting.end or "it ended normally")
    return QuietTime(_QUIET_S, again, tuple(meeting.lists), end, stage.subject.exit_code)


@rule(
    108,
    "A plugin that is registered does not register again while the kubelet stays",
    RuleSeverity.SHOULD,
    source="kubelet 1.36 pkg/kubelet/cm/devicemanager/plugin/v1beta1/handler.go; Kubernetes issues #121994, #127803; "
    "1.37 refuses it",
    scene=QUIET,
)
def stays_registered(seen: QuietTime) -> Iterator[str]:
    if seen.again:
        yield f"Register was called {seen.again} more times in {seen.watched_s:g} s, though the plugin was registered"


@rule(
    316,
    "The stream stays open while nothing changes",
    RuleSeverity.MUST,
    source="kubelet 1.36 pkg/kubelet/cm/devicemanager/plugin/v1beta1/client.go: the end of the stream disconnects it",
    scene=QUIET,
)
def keeps_the_stream(seen: QuietTime) -> Iterator[str]:
    if seen.stream_end:
        ended = "" if seen.exit_code is None else f"; the plugin ended with exit code {seen.exit_code}"
        yield f"ListAndWatch ended within {seen.watched_s:g} s: {seen.stream_end}{ended}"


@rule(
    311,
    "A list is sent when something has changed, not again and again",
    RuleSeverity.SHOULD,
    source="kubelet 1.36 pkg/kubelet/cm/devicemanager/manager.go, genericDeviceUpdateCallback: each message writes the "
    "checkpoint",
    scene=QUIET,
)
def sends_changes_only(seen: QuietTime) -> Iterator[str]:
    repeated = sum(set(a.devices) == set(b.devices) for a, b in zip(seen.lists, seen.lists[1:], strict=False))
    if len(seen.lists) < 2:
        return
    if repeated > 2:
        yield f"{repeated} of {len(seen.lists)} lists in {seen.watched_s:g} s held what the one before had held"
