"""The end of the plugin's process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from plugbay.testing.conformance.reasons import NotApplicable
from plugbay.testing.conformance.rule import Manner, RuleSeverity, rule, scene
from plugbay.testing.conformance.stage import Stage
from plugbay.testing.conformance.subject.usage import caught_signals
from plugbay.values import dataclass

END_S: Final = 5.0
_PROC: Final = Path("/proc")
_TERMINATION: Final = "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination"


@dataclass(frozen=True, slots=True)
class EndSeen:
    """The plugin after a signal.

    Attributes:
        took_s: the time until it ended; None if it did not.
        exit_code: as in `subprocess`.
        left: the sockets that it left in the device plugin directory.
        is_handled: whether its process had a handler; None if it is but the parent of the plugin.
    """

    number: signal.Signals
    took_s: float | None
    exit_code: int | None
    left: tuple[str, ...]
    is_handled: bool | None


async def _end(stage: Stage, number: signal.Signals) -> EndSeen:
    await stage.begin()
    subject, loop = stage.subject, asyncio.get_running_loop()
    handled: bool | None = None
    if (await subject.usage()).processes == 1:
        handled = number in await asyncio.to_thread(caught_signals, subject.pid, proc_root=_PROC)
    before = loop.time()
    subject.send(number)
    stage.trace.note(f"the plugin gets {number.name}")
    took_s = loop.time() - before if await subject.until_ended(END_S) else None
    kubelet = stage.kubelet.paths.registration_socket
    left = [each.name for each in stage.kubelet.paths.device_plugins.iterdir() if each.is_socket() and each != kubelet]
    return EndSeen(number, took_s, subject.exit_code, tuple(sorted(left)), handled)


@scene("SIGTERM", manner=Manner.OWN)
async def TERMINATED(stage: Stage) -> EndSeen:
    """Ask the plugin to end, as a node does."""
    return await _end(stage, signal.SIGTERM)


@scene("SIGINT", manner=Manner.OWN)
async def INTERRUPTED(stage: Stage) -> EndSeen:
    """Ask the plugin to end, as Ctrl-C does."""
    return await _end(stage, signal.SIGINT)


def _ended(seen: EndSeen) -> EndSeen:
    if seen.took_s is None:
        raise NotApplicable(f"the plugin does not end on {seen.number.name}")
    return seen


@rule(
    901,
    f"The plugin ends within {END_S:g} s of SIGTERM",
    RuleSeverity.SHOULD,
    source=f"{_TERMINATION}: it is killed after 30 s; until then no other instance takes its place",
    scene=TERMINATED,
    is_timed=True,
)
def ends(seen: EndSeen) -> Iterator[str]:
    if seen.took_s is None:
        yield f"the plugin still ran {END_S:g} s after SIGTERM"


@rule(
    902,
    "The plugin ends on SIGTERM with exit code 0",
    RuleSeverity.INFO,
    source=f"{_TERMINATION}: with another code its end shows as an error, as that of a plugin that crashed",
    scene=TERMINATED,
)
def ends_well(seen: EndSeen) -> Iterator[str]:
    code = _ended(seen).exit_code
    if code is None or code < 0:
        raise NotApplicable("the plugin has no handler for SIGTERM (PB905)")
    if code:
        yield f"the plugin ended with exit code {code} after SIGTERM"


@rule(
    903,
    "The plugin removes its socket when it ends on SIGTERM",
    RuleSeverity.INFO,
    source="kubelet 1.36 pkg/kubelet/cm/devicemanager/plugin/v1beta1/server.go: only the next start of a kubelet does",
    scene=TERMINATED,
)
def leaves_no_socket(seen: EndSeen) -> Iterator[str]:
    code = _ended(seen).exit_code
    if code is None or code < 0:
        raise NotApplicable("the plugin has no handler for SIGTERM (PB905)")
    if seen.left:
        yield f"after the plugin's end there is still {', '.join(seen.left)}"


@rule(
    904,
    f"The plugin ends within {END_S:g} s of SIGINT",
    RuleSeverity.INFO,
    source="signal(7): Ctrl-C in a terminal, with which authors try a plugin",
    scene=INTERRUPTED,
    is_timed=True,
)
def ends_on_interrupt(seen: EndSeen) -> Iterator[str]:
    if seen.took_s is None:
        yield f"the plugin still ran {END_S:g} s after SIGINT"


@rule(
    905,
    "The plugin has a handler for SIGTERM",
    RuleSeverity.SHOULD,
    source="pid_namespaces(7): as process 1 of a container it gets only the signals that it handles",
    scene=TERMINATED,
)
def handles_the_signal(seen: EndSeen) -> Iterator[str]:
    if seen.is_handled is None:
        raise NotApplicable("the plugin runs below the process that was started")
    if not seen.is_handled:
        yield "the plugin has no handler for SIGTERM: as process 1 of a container it is killed 30 s later instead"
