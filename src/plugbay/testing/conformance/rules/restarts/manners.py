"""Kubelet restarts, in the manners in which they show in the device plugin directory."""

from __future__ import annotations

import asyncio
import errno
import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from plugbay.model.ids import DeviceId
from plugbay.ops.tasks import first
from plugbay.testing.conformance.probe.meeting import Meeting
from plugbay.testing.conformance.reasons import NotApplicable
from plugbay.testing.conformance.rule import Manner, RuleSeverity, rule, scene
from plugbay.testing.conformance.rules.lists import named_ids
from plugbay.testing.conformance.stage import Stage
from plugbay.values import dataclass

PROMPT_S: Final = 1.0
"""Pods are admitted again 0.9 s after a kubelet's socket appears."""
_AWAY_S: Final = 0.7
_SERVER: Final = "kubelet 1.36 pkg/kubelet/cm/devicemanager/plugin/v1beta1/server.go"
_MANAGER: Final = "kubelet 1.36 pkg/kubelet/cm/devicemanager/manager.go"
_DOCS: Final = "https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/#handling-kubelet-restarts"
_ADMITTED: Final = "observed with kubelet 1.36: pods are admitted again 0.9 s after the socket appears, or lost"


@dataclass(frozen=True, slots=True)
class RestartSeen:
    """The plugin after the kubelet started again.

    Attributes:
        took_s: the time from the new socket to the new list; None if it did not come.
        attempts: the Register calls since the restart.
        refusal: the error that the last of them was answered with.
        exit_code: how the plugin ended meanwhile; None if it did not. It was started again then.
        waited_s: the time that it had.
        meeting: the new registration.
    """

    took_s: float | None
    attempts: int
    refusal: str = ""
    exit_code: int | None = None
    waited_s: float = 0.0
    meeting: Meeting | None = None

    def lost(self) -> Iterator[str]:
        """A sentence if the plugin is not back."""
        if self.took_s is not None:
            return
        if not self.attempts:
            yield f"the plugin did not register again within {self.waited_s:g} s"
        else:
            reason = self.refusal or "it sent no list"
            yield f"the plugin called Register {self.attempts} times in {self.waited_s:g} s, and is not back: {reason}"


@dataclass(frozen=True, slots=True)
class ClearedSeen:
    """The plugin after kubelets that removed all sockets at their start.

    Attributes:
        once: after one start.
        lost: the devices that were healthy before, and were not so in time after that.
        twice: after two more, one just after the other; None if it was not back before.
    """

    once: RestartSeen
    lost: tuple[str, ...] = ()
    twice: RestartSeen | None = None


async def until_back(stage: Stage, before: Meeting) -> RestartSeen:
    """Wait for a registration after ``before``, with a list; a plugin that has ended is started again, as by a node."""
    timeout_s = stage.settings.retry_timeout_s
    loop = asyncio.get_running_loop()
    began, known = loop.time(), len(stage.kubelet.attempts)
    exit_code = None
    if not stage.subject.is_running:
        exit_code, timeout_s = stage.subject.exit_code, stage.settings.start_again_s
        await stage.start_plugin()
    await first(_until_listed(stage, before, timeout_s), stage.subject.ended.wait())
    meeting = await _until_listed(stage, before, 0)
    if meeting is None and not stage.subject.is_running:
        exit_code, timeout_s = stage.subject.exit_code, stage.settings.start_again_s
        await stage.start_plugin()
        meeting = await _until_listed(stage, before, timeout_s)
    took_s = loop.time() - began if meeting is not None else None
    attempts = [each for each in stage.kubelet.attempts[known:] if each.request.resource_name == stage.resource]
    refusal = attempts[-1].refusal if attempts else ""
    return RestartSeen(took_s, len(attempts), refusal, exit_code, timeout_s, meeting)


async def _until_listed(stage: Stage, before: Meeting, timeout_s: float) -> Meeting | None:
    """Wait for a registration after ``before`` with a list; None if there is none in time.

    Those whose stream breaks first are passed over: a plugin that stops its server for each new kubelet.sock, and
    sees two of them, breaks off the first registration and makes another one at once.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while meeting := await stage.kubelet.meet(stage.resource, max(0.0, deadline - loop.time()), after=before):
        if await meeting.until_listed(max(0.0, deadline - loop.time())):
            return meeting
        before = meeting
    return None


@scene("kubelet restart: away, then a new socket", manner=Manner.OWN, starts=2, returns=2)
async def NEW_SOCKET(stage: Stage) -> RestartSeen:
    """Stop the kubelet for a moment, and start it; the plugin's socket stays, as no kubelet leaves it."""
    before = await stage.begin()
    await stage.kubelet.stop()
    await stage.subject.until_ended(_AWAY_S)
    await stage.kubelet.listen(clears_directory=False)
    return await until_back(stage, before)


@scene("kubelet restart: directory cleared", manner=Manner.OWN, starts=3, returns=5)
async def CLEARED(stage: Stage) -> ClearedSeen:
    """Start the kubelet again, which removes all sockets in the directory; then twice at once."""
    before = await stage.begin()
    healthy = before.healthy
    await stage.kubelet.restart()
    once = await until_back(stage, before)
    if once.meeting is None:
        return ClearedSeen(once)
    lost = await _lost(stage, healthy, once.meeting)
    await stage.kubelet.restart()
    await stage.kubelet.restart()
    return ClearedSeen(once, lost, await until_back(stage, stage.kubelet.meetings[-1]))


async def _lost(stage: Stage, healthy: Sequence[DeviceId], meeting: Meeting) -> tuple[str, ...]:
    """The devices of ``healthy`` that are not so in the lists of ``meeting``, or of a later registration, in time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + stage.settings.retry_timeout_s
    while not await meeting.until(partial(_are_healthy, healthy, meeting), deadline - loop.time()):
        if (later := await _until_listed(stage, meeting, deadline - loop.time())) is None:
            break
        meeting = later
    return tuple(each for each in healthy if each not in meeting.healthy)


def _are_healthy(devices: Sequence[DeviceId], meeting: Meeting) -> bool:
    return {*devices} <= {*meeting.healthy}


@scene("kubelet restart: directory made anew", manner=Manner.OWN, starts=2, returns=2)
async def NEW_DIRECTORY(stage: Stage) -> RestartSeen:
    """Remove the directory while the kubelet is down; it makes another one."""
    before = await stage.begin()
    await stage.kubelet.stop()
    await asyncio.to_thread(_remove_tree, stage.kubelet.paths.device_plugins)
    await stage.kubelet.listen()
    return await until_back(stage, before)


def _remove_tree(directory: Path) -> None:
    """Remove a directory in which the plugin may remove its sockets, or make them, at the same time."""
    while directory.is_dir():
        try:
            shutil.rmtree(directory)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                raise


@rule(
    701,
    "The plugin registers again when the kubelet's socket is made anew",
    RuleSeverity.INFO,
    source=f"{_DOCS}: a plugin may watch its own socket instead, which a new kubelet deletes",
    scene=NEW_SOCKET,
)
def registers_again(seen: RestartSeen) -> Iterator[str]:
    yield from seen.lost()


@rule(
    702,
    "The plugin is back when the kubelet has removed its socket at its start",
    RuleSeverity.MUST,
    source=f"{_DOCS}; {_SERVER}, CleanupPluginDirectory: it removes the sockets of running plugins, too",
    scene=CLEARED,
)
def survives_clearing(seen: ClearedSeen) -> Iterator[str]:
    yield from seen.once.lost()


@rule(
    703,
    "The plugin is back when the directory was removed and made anew",
    RuleSeverity.SHOULD,
    source=f"{_SERVER}, Start: it makes the directory if that is missing, as after a node was reset",
    scene=NEW_DIRECTORY,
)
def survives_new_directory(seen: RestartSeen) -> Iterator[str]:
    yield from seen.lost()


@rule(
    704,
    f"The plugin is back within {PROMPT_S:g} s of a kubelet's start",
    RuleSeverity.SHOULD,
    source=f"{_ADMITTED} if their devices are not back",
    scene=CLEARED,
    is_timed=True,
)
def is_prompt(seen: ClearedSeen) -> Iterator[str]:
    if seen.once.took_s is None or seen.once.exit_code is not None:
        raise NotApplicable("the plugin did not come back by itself")
    if seen.once.took_s > PROMPT_S:
        yield f"the kubelet had the plugin's list {seen.once.took_s:.1f} s after it listened"


@rule(
    706,
    "The plugin keeps running while the kubelet is away",
    RuleSeverity.SHOULD,
    source=f"{_ADMITTED}; an ended container is started again after a pause that grows to 5 min",
    scene=NEW_SOCKET,
)
def stays(seen: RestartSeen) -> Iterator[str]:
    if seen.exit_code is not None:
        yield f"the plugin ended with exit code {seen.exit_code} when the kubelet stopped"


@rule(
    712,
    "The plugin registers with the newest of two kubelets that start one after the other",
    RuleSeverity.MUST,
    source=f"{_DOCS}; the second start falls into the registration with the first",
    scene=CLEARED,
)
def follows_the_newest(seen: ClearedSeen) -> Iterator[str]:
    if seen.twice is None:
        raise NotApplicable("the plugin did not come back after one restart (PB702)")
    yield from seen.twice.lost()


@rule(
    713,
    "Devices that were healthy are healthy again after a kubelet's start",
    RuleSeverity.MUST,
    source=f"{_MANAGER}, devicesToAllocate: a pod whose devices are not listed as healthy is refused when it is "
    "admitted again",
    scene=CLEARED,
)
def keeps_devices(seen: ClearedSeen) -> Iterator[str]:
    if seen.once.meeting is None:
        raise NotApplicable("the plugin did not come back (PB702)")
    if seen.lost:
        was = "was" if len(seen.lost) == 1 else "were"
        after = f"not within {seen.once.waited_s:g} s after it"
        yield f"{named_ids(seen.lost)} {was} healthy before the kubelet started again, and {after}"
