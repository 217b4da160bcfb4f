"""Play the kubelet's side of a trace to a plugin again, and compare what it answers with the trace.

A replay is this: the plugin is started, and for each life of the kubelet in the recording it has to register the same
resources, or those that are selected, with the same version and options. A resource that it does not register at all is
a difference, and the others are played. Registrations that were refused are refused again. The kubelet's calls are made
with the same bytes, one after another in the order in which they began; each gets 30 s. An answer is the same when
all its fields are, and a failure when its code and text are. Calls that the plugin did not end are made, and not
compared. The first list of each ListAndWatch is compared, without regard to the order of its devices; later
lists are not, as they tell of changes of the hardware. Between two lives the kubelet is restarted, with all sockets
removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from plugbay.errors import PluginProgramFailed, RpcFailed
from plugbay.kubelet.paths import KubeletPaths
from plugbay.ops.tasks import first, ungrouped
from plugbay.testing.conformance.subject.command import PluginCommand
from plugbay.testing.conformance.subject.process import Subject
from plugbay.testing.local.opening import private_directory
from plugbay.testing.tracing.comparing import compare_call, compare_registration
from plugbay.testing.tracing.played_kubelet import CALL_S, PlayedKubelet, PlayedRegistration, played_kubelet
from plugbay.testing.tracing.program import failure_of, how_ended, running
from plugbay.testing.tracing.replay_plan import ReplayedCall, ReplayedLife, ReplayedRegistration, plan_of
from plugbay.testing.tracing.report import ReplayedStep, ReplayReport
from plugbay.testing.tracing.selection import Selection
from plugbay.traffic.records import TrafficRecord

REGISTERS_S: Final = 30.0
"""The time that the plugin has for each registration of the recording, after its start, a restart or the one before."""


async def replay_trace(
    records: Iterable[TrafficRecord],
    command: PluginCommand,
    environ: Mapping[str, str],
    selection: Selection,
    *,
    source: str = "trace",
) -> ReplayReport:
    """Replay a trace to the plugin of ``command``: the resources that are selected; only selected methods are compared.

    Raises:
        InvalidDocument: the trace has nothing that can be played.
        PluginProgramFailed: the plugin cannot be run, registers nothing of the trace, or not again, or ends.
    """
    lives = plan_of(records, source, resources=selection.resources)
    with ungrouped(), private_directory() as root:
        async with played_kubelet(KubeletPaths(root)) as kubelet, running(command, root, environ) as subject:
            replay = _Replay(kubelet, command, subject, selection)
            for number, life in enumerate(lives):
                if number:
                    await kubelet.stop()
                    await kubelet.start()
                await replay.play(life)
            replay.finish()
            return replay.report


class _Replay:
    def __init__(self, kubelet: PlayedKubelet, command: PluginCommand, subject: Subject, selection: Selection) -> None:
        self.report = ReplayReport()
        self._kubelet = kubelet
        self._command = command
        self._subject = subject
        self._selection = selection
        self._served: set[str] = set()
        self._missing: set[str] = set()
        """Resources that the plugin did not register when it should have done so first."""

    async def play(self, life: ReplayedLife) -> None:
        awaited = [each for each in life.registrations if each.resource not in self._missing]
        again: list[str] = []
        while awaited:
            taken = await self._next_registration(awaited, again)
            if taken is None:
                self._leave_out(awaited)
                break
            recorded, played = taken
            awaited.remove(recorded)
            self._served.add(recorded.resource)
            await self._register(recorded, played)
        else:  # a plugin that waits for its calls because others are missing rightly tries again
            for resource in again:
                self._tell("Register", resource, [f"{resource} registers once more than in the recording"])
        for call in life.calls:
            if call.resource not in self._missing:
                await self._call(call)

    def finish(self) -> None:
        """Tell of a plugin that has ended."""
        if self._subject.ended.is_set():
            step = ReplayedStep(self._command.words[0], (f"{how_ended(self._subject)} during the replay",))
            self.report.steps.append(step)

    async def _register(self, recorded: ReplayedRegistration, played: PlayedRegistration) -> None:
        resource = recorded.resource
        self._tell("Register", resource, compare_registration(recorded.request, played.request))
        if recorded.refusal is None or recorded.dialled:
            try:
                await self._kubelet.dial(played.registration)
            except TimeoutError:
                raise self._failed(f"registered {resource}, and does not serve it") from None
        for call in recorded.dialled:
            await self._call(call)
        if recorded.is_answered:
            played.answer(recorded.refusal)

    async def _call(self, call: ReplayedCall) -> None:
        answer, failure = None, None
        try:
            answer = await self._kubelet.call(call.resource, call.method, call.request)
        except RpcFailed as error:
            failure = error
        except TimeoutError:
            self._tell(call.title, call.resource, [f"no list came within {CALL_S:g} s"])
            return
        self._tell(call.title, call.resource, compare_call(call, answer, failure) if call.is_answered else None)

    async def _next_registration(
        self, awaited: list[ReplayedRegistration], again: list[str]
    ) -> tuple[ReplayedRegistration, PlayedRegistration] | None:
        """The next registration that is awaited, with the one of the recording; None if none comes in time.

        Any other is accepted, and its resource put into ``again``.
        """
        taken: list[tuple[ReplayedRegistration, PlayedRegistration]] = []

        async def take() -> None:
            while not taken:
                played = await self._kubelet.next_registration()
                resource = played.registration.resource_name
                recorded = next((each for each in awaited if each.resource == resource), None)
                if recorded is not None:
                    taken.append((recorded, played))
                else:
                    played.answer(None)
                    again.append(resource)

        await first(take(), self._subject.ended.wait(), timeout_s=REGISTERS_S)
        if not taken and self._subject.ended.is_set():
            raise self._failed(f"{how_ended(self._subject)} before it registered {_named(awaited)}")
        return taken[0] if taken else None

    def _leave_out(self, awaited: list[ReplayedRegistration]) -> None:
        """Go on without resources that never came; the plugin may be one of several that were recorded.

        Raises:
            PluginProgramFailed: one has come before, or nothing came at all.
        """
        came = [each for each in awaited if each.resource in self._served]
        if came or not self._served:
            raise self._failed(f"has not registered {_named(came or awaited)} within {REGISTERS_S:g} s")
        for each in awaited:
            if each.resource not in self._missing:
                self._missing.add(each.resource)
                problem = f"in the recording, and not within {REGISTERS_S:g} s now; if another plugin served it"
                self._tell("Register", each.resource, [f"{problem}, choose with --resource what this one serves"])

    def _tell(self, title: str, resource: str, differences: list[str] | None) -> None:
        method = title.partition(" ")[0]
        if self._selection.methods and method not in self._selection.methods:
            return
        if self._selection.resources and resource not in self._selection.resources:
            return
        told = None if differences is None else tuple(differences)
        self.report.steps.append(ReplayedStep(f"{resource}  {title}", told))

    def _failed(self, problem: str) -> PluginProgramFailed:
        return failure_of(self._command, self._subject, problem)


def _named(registrations: Iterable[ReplayedRegistration]) -> str:
    return " and ".join(dict.fromkeys(each.resource for each in registrations))
