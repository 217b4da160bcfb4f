"""One instance of the plugin after another that was killed, and two at a time."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from typing import Final

from plugbay.testing.conformance.probe.meeting import Meeting
from plugbay.testing.conformance.reasons import CannotJudge, NotApplicable
from plugbay.testing.conformance.rule import Manner, RuleSeverity, rule, scene
from plugbay.testing.conformance.rules.restarts.streams import answers_at
from plugbay.testing.conformance.stage import Stage
from plugbay.values import dataclass

_ENDS_S: Final = 8.0
"""The time that an instance has to end after a signal; how long that takes is another rule's matter."""
_WAR: Final = 4
"""More registrations than two instances need while nothing else happens."""
_PEACE_S: Final = 1.5
"""The time without a registration after which two instances have come to terms."""
_HANDLER: Final = "kubelet 1.36 pkg/kubelet/cm/devicemanager/plugin/v1beta1/handler.go"
_ROLLING: Final = "https://kubernetes.io/docs/tasks/manage-daemon/update-daemon-set/, maxSurge"


@dataclass(frozen=True, slots=True)
class KilledSeen:
    """The plugin after it was killed and started again.

    Attributes:
        is_back: whether it registered and listed its devices.
        exit_code: how it ended; None if it runs.
        output: the end of what it printed.
    """

    is_back: bool
    exit_code: int | None
    output: str


@dataclass(frozen=True, slots=True)
class PairSeen:
    """Two instances beside each other, as in a rolling update.

    Attributes:
        registered: whether the second one registered.
        refused_code: the exit code of a second one that ended by itself.
        quarrels: the registrations after that, until there was peace or a war.
        survives: whether the other one can be reached after one was asked to end; None if that was not tried.
        waited_s: the time that the second one had to register or, if it did, the other one to become reachable.
    """

    registered: bool
    refused_code: int | None
    quarrels: int = 0
    survives: bool | None = None
    waited_s: float = 0.0

    def both(self) -> PairSeen:
        """Itself, if there were two.

        Raises:
            NotApplicable: the second one does not run beside the first.
        """
        if self.refused_code is not None:
            raise NotApplicable(f"a second instance ends by itself, with exit code {self.refused_code}")
        if not self.registered:
            raise CannotJudge(f"a second instance did not register within {self.waited_s:g} s")
        return self


@scene("SIGKILL, and another start", manner=Manner.OWN, starts=2)
async def KILLED(stage: Stage) -> KilledSeen:
    """Kill the plugin, which leaves its socket, and start it again."""
    before = await stage.begin()
    stage.subject.send(signal.SIGKILL)
    await stage.subject.until_ended(_ENDS_S)
    await stage.subject.kill()
    after = await stage.start_plugin()
    is_back = await stage.until_met_or_ended(stage.settings.ready_timeout_s, after=before)
    return KilledSeen(is_back, after.exit_code, after.output.text[-300:])


@scene("two instances, the first one ends", manner=Manner.OWN, starts=2, returns=1)
async def FIRST_ENDS(stage: Stage) -> PairSeen:
    """Start a second instance, then ask the first one to end: a rolling update."""
    return await _pair(stage, ends=0)


@scene("two instances, the second one ends", manner=Manner.OWN, starts=2, returns=1)
async def SECOND_ENDS(stage: Stage) -> PairSeen:
    """Start a second instance, and ask it to end."""
    return await _pair(stage, ends=1)


async def _pair(stage: Stage, *, ends: int) -> PairSeen:
    first = await stage.begin()
    known = len(stage.kubelet.meetings)
    await stage.start_plugin()
    has_registered = await stage.until_met_or_ended(stage.settings.ready_timeout_s, after=first)
    second = await stage.kubelet.meet(stage.resource, 0, after=first)
    if second is None or not has_registered:
        return PairSeen(False, stage.subject.exit_code, waited_s=stage.settings.ready_timeout_s)
    quarrels = await _quarrels(stage, second)
    stage.subjects[ends].send(signal.SIGTERM)
    stage.trace.note(f"the {'second' if ends else 'first'} instance gets SIGTERM")
    await stage.subjects[ends].until_ended(_ENDS_S)
    theirs = stage.kubelet.meetings[:known] if ends else stage.kubelet.meetings[known:]
    return PairSeen(True, None, quarrels, await _is_reachable(stage, theirs), stage.settings.retry_timeout_s)


async def _quarrels(stage: Stage, settled: Meeting) -> int:
    """The number of registrations of the resource after ``settled``, until there is peace or a war."""
    meetings = stage.kubelet.meetings
    first = meetings.index(settled)
    while True:
        mine = [each for each in meetings[first:] if each.resource == stage.resource]
        if len(mine) > _WAR or await stage.kubelet.meet(stage.resource, _PEACE_S, after=mine[-1]) is None:
            return len(mine) - 1


async def _is_reachable(stage: Stage, theirs: list[Meeting]) -> bool:
    """Whether a plugin answers at a socket of the resource that was registered by ``theirs`` or since."""
    loop = asyncio.get_running_loop()
    end, known = loop.time() + stage.settings.retry_timeout_s, len(stage.kubelet.meetings)
    while loop.time() < end:
        for each in (*theirs, *stage.kubelet.meetings[known:]):
            if each.resource == stage.resource and each.socket.is_socket() and await answers_at(each.socket):
                return True
        await asyncio.sleep(0.1)
    return False


@rule(
    907,
    "A second instance that ends leaves the first one reachable",
    RuleSeverity.SHOULD,
    source=f"{_ROLLING}; {_HANDLER}: the next kubelet, or registration, dials the socket of the instance that is left",
    scene=SECOND_ENDS,
)
def first_survives(seen: PairSeen) -> Iterator[str]:
    if not seen.both().survives:
        yield f"{seen.waited_s:g} s after a second instance ended, nobody answered at a socket of the first one"


@rule(
    908,
    "The first instance that ends leaves a second one reachable",
    RuleSeverity.SHOULD,
    source=f"{_ROLLING}; {_HANDLER}: the next kubelet, or registration, dials the socket of the instance that is left",
    scene=FIRST_ENDS,
)
def second_survives(seen: PairSeen) -> Iterator[str]:
    if not seen.both().survives:
        yield f"{seen.waited_s:g} s after the first instance ended, nobody answered at a socket of the second one"


@rule(
    911,
    "Two instances do not register against each other",
    RuleSeverity.SHOULD,
    source=f"{_ROLLING}; {_HANDLER}: each registration is a new connection, and 1.36 keeps the old ones",
    scene=FIRST_ENDS,
)
def live_in_peace(seen: PairSeen) -> Iterator[str]:
    if seen.both().quarrels >= _WAR:
        yield f"two instances registered {seen.quarrels} times with no {_PEACE_S:g} s between, though nothing happened"


@rule(
    912,
    "The plugin starts again after it was killed",
    RuleSeverity.MUST,
    source="unix(7): the socket of a process that was killed stays, and cannot be bound again",
    scene=KILLED,
)
def starts_after_a_crash(seen: KilledSeen) -> Iterator[str]:
    if seen.is_back:
        return
    if seen.exit_code is not None:
        yield f"started again after SIGKILL, the plugin ended with exit code {seen.exit_code}: {seen.output!r}"
    else:
        yield "started again after SIGKILL, the plugin did not register"
