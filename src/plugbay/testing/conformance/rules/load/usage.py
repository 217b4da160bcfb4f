"""The amounts that a plugin uses: over a hundred restarts of the kubelet, and while nothing happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from plugbay.testing.conformance.reasons import NotApplicable
from plugbay.testing.conformance.rule import Manner, RuleSeverity, rule, scene
from plugbay.testing.conformance.stage import Stage
from plugbay.testing.conformance.subject.usage import ResourceUsage, tree_wakeups
from plugbay.values import dataclass

RESTARTS: Final = 100
_RESTARTS_S: Final = 14.0
"""The time for all of them; a plugin that looks for the kubelet now and then gets through fewer."""
_WARM: Final = 0.3
"""After this part of the restarts, what grows is not what a program builds up once."""
_SETTLE_S: Final = 0.3
_FEWEST: Final = 5
IDLE_S: Final = 2.5
_CPU: Final = 0.1
_WAKEUPS_PER_S: Final = 100
_BYTES_PER_S: Final = 10_000
_RSS_PER_RESTART: Final = 150_000
_EACH: Final = 0.5
"""A leak shows in each restart, or in every second one at least."""
_PROC: Final = Path("/proc")
_SERVER: Final = "kubelet 1.36 pkg/kubelet/cm/devicemanager/plugin/v1beta1/server.go"
_LIMITS: Final = "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/"
_LOGS: Final = "https://kubernetes.io/docs/concepts/cluster-administration/logging/"


@dataclass(frozen=True, slots=True)
class RestartsSeen:
    """Many restarts, one after the other.

    Attributes:
        done: the restarts after which the plugin was back.
        wanted: those that were tried.
        counted: the restarts between the two looks.
        before, after: what the plugin used after the first third, and at the end.
        has_ended: whether the plugin's process ended meanwhile.
        waited_s: the time that it had to come back from each.
    """

    done: int
    wanted: int
    counted: int
    before: ResourceUsage
    after: ResourceUsage
    has_ended: bool = False
    waited_s: float = 0.0

    def growth(self, amount: Callable[[ResourceUsage], float]) -> float:
        """The growth of an amount with each restart.

        Raises:
            NotApplicable: there were too few to tell, or there are more processes than before.
        """
        if self.has_ended:
            raise NotApplicable("the plugin ended when the kubelet stopped (PB706)")
        if self.counted < _FEWEST:
            raise NotApplicable(f"the plugin came back from {self.done} restarts: too few to see what grows")
        if self.processes >= _EACH:
            raise NotApplicable("there are more processes after each restart (PB812)")
        return (amount(self.after) - amount(self.before)) / self.counted

    @property
    def processes(self) -> float:
        """The processes that each restart left behind."""
        return (self.after.processes - self.before.processes) / max(1, self.counted)


@dataclass(frozen=True, slots=True)
class IdleSeen:
    """A time in which nothing happened.

    Attributes:
        cpu: the part of one processor that was used.
        wakeups: how often the plugin's threads slept and woke up, per second.
        printed: bytes per second.
    """

    cpu: float
    wakeups: float
    printed: float


@scene(f"{RESTARTS} kubelet restarts", manner=Manner.OWN, returns=2)
async def MANY_RESTARTS(stage: Stage) -> RestartsSeen:
    """Restart the kubelet again and again, as soon as the plugin is back; each start removes the plugin's socket."""
    meeting = await stage.begin()
    subject, loop = stage.subject, asyncio.get_running_loop()
    end, waited_s = loop.time() + _RESTARTS_S, stage.settings.retry_timeout_s
    before, looked, done, wanted = await subject.usage(), 0, 0, 0
    while wanted < RESTARTS and loop.time() < end and subject.is_running:
        wanted += 1
        await stage.kubelet.restart()
        again = await stage.kubelet.meet(stage.resource, waited_s, after=meeting)
        if again is None or not await again.until_listed(waited_s):
            break
        meeting, done = stage.kubelet.meetings[-1], done + 1
        if not looked and (wanted >= RESTARTS * _WARM or loop.time() > end - _RESTARTS_S * (1 - _WARM)):
            await asyncio.sleep(_SETTLE_S)
            before, looked = await subject.usage(), done
    await asyncio.sleep(_SETTLE_S)
    return RestartsSeen(done, wanted, done - looked, before, await subject.usage(), not subject.is_running, waited_s)


@scene("idle", manner=Manner.OWN)
async def IDLE(stage: Stage) -> IdleSeen:
    """Leave the plugin alone, and look at what it uses."""
    await stage.begin()
    await asyncio.sleep(_SETTLE_S)
    subject, loop = stage.subject, asyncio.get_running_loop()
    began, before, printed = loop.time(), await subject.usage(), subject.output.size
    woken = await asyncio.to_thread(tree_wakeups, subject.pid, proc_root=_PROC)
    await asyncio.sleep(IDLE_S)
    after, took_s = await subject.usage(), loop.time() - began
    slept = await asyncio.to_thread(tree_wakeups, subject.pid, proc_root=_PROC) - woken
    cpu_s = after.cpu_s - before.cpu_s
    return IdleSeen(cpu_s / took_s, max(0, slept) / took_s, (subject.output.size - printed) / took_s)


@rule(
    805,
    "Kubelet restarts leave no open descriptors behind",
    RuleSeverity.SHOULD,
    source=f"{_SERVER}: each start is a new socket and a new registration; a process has 1,024 descriptors by default",
    scene=MANY_RESTARTS,
)
def leaks_no_descriptors(seen: RestartsSeen) -> Iterator[str]:
    if seen.growth(lambda usage: usage.descriptors) >= _EACH:
        yield f"open descriptors: {seen.before.descriptors}, after {seen.counted} restarts {seen.after.descriptors}"


@rule(
    806,
    "Kubelet restarts leave no memory behind",
    RuleSeverity.SHOULD,
    source=f"{_SERVER}: a plugin outlives many kubelets; {_LIMITS}: a container that passes its limit is killed",
    scene=MANY_RESTARTS,
)
def leaks_no_memory(seen: RestartsSeen) -> Iterator[str]:
    if seen.growth(lambda usage: usage.rss_bytes) >= _RSS_PER_RESTART:
        before, after = seen.before.rss_bytes / 1e6, seen.after.rss_bytes / 1e6
        yield f"resident memory: {before:.1f} MB, after {seen.counted} restarts {after:.1f} MB"


@rule(
    807,
    "Kubelet restarts leave no threads behind",
    RuleSeverity.SHOULD,
    source=f"{_SERVER}: a plugin outlives many kubelets; the threads of a pod are limited (podPidsLimit)",
    scene=MANY_RESTARTS,
)
def leaks_no_threads(seen: RestartsSeen) -> Iterator[str]:
    if seen.growth(lambda usage: usage.threads - usage.processes) >= _EACH:
        yield f"threads: {seen.before.threads}, after {seen.counted} restarts {seen.after.threads}"


@rule(
    812,
    "Kubelet restarts leave no processes behind",
    RuleSeverity.SHOULD,
    source=f"{_SERVER}: a plugin outlives many kubelets; the processes of a pod are limited (podPidsLimit)",
    scene=MANY_RESTARTS,
)
def leaks_no_processes(seen: RestartsSeen) -> Iterator[str]:
    if seen.processes >= _EACH:
        yield f"processes: {seen.before.processes}, after {seen.counted} restarts {seen.after.processes}"


@rule(
    808,
    "The plugin comes back from the last of many restarts as from the first",
    RuleSeverity.MUST,
    source=f"{_SERVER}: a plugin outlives many kubelets",
    scene=MANY_RESTARTS,
)
def lasts(seen: RestartsSeen) -> Iterator[str]:
    if seen.has_ended or not seen.done:
        raise NotApplicable("the plugin does not come back from the first restart (PB702, PB706)")
    if seen.done < seen.wanted:
        yield f"after {seen.done} restarts of the kubelet the plugin did not come back within {seen.waited_s:g} s"


@rule(
    809,
    f"An idle plugin uses less than {_CPU * 100:g} % of a processor",
    RuleSeverity.SHOULD,
    source=f"{_LIMITS}: it runs on every node, all the time, and what it uses pods cannot have",
    scene=IDLE,
    is_timed=True,
)
def is_idle(seen: IdleSeen) -> Iterator[str]:
    if seen.cpu >= _CPU:
        yield f"while nothing happened, the plugin used {seen.cpu * 100:.0f} % of a processor"


@rule(
    810,
    f"An idle plugin wakes up less than {_WAKEUPS_PER_S} times a second",
    RuleSeverity.INFO,
    source="https://docs.kernel.org/admin-guide/pm/cpuidle.html: a processor that is woken often saves no power",
    scene=IDLE,
    is_timed=True,
)
def sleeps(seen: IdleSeen) -> Iterator[str]:
    if seen.wakeups >= _WAKEUPS_PER_S:
        yield f"while nothing happened, the plugin woke up {seen.wakeups:.0f} times a second"


@rule(
    811,
    "An idle plugin prints next to nothing",
    RuleSeverity.SHOULD,
    source=f"{_LOGS}: a kubelet keeps 5 files of 10 MiB; what is older is lost",
    scene=IDLE,
    is_timed=True,
)
def is_quiet(seen: IdleSeen) -> Iterator[str]:
    if seen.printed >= _BYTES_PER_S:
        yield f"while nothing happened, the plugin printed {seen.printed / 1000:.0f} kB a second"
