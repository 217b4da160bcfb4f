"""Play the kubelet's side of a trace to a plugin again, and compare what it answers with the trace.

A replay is this: the plugin is started, and for each life of the kubelet in the recording it has to register the same
resources with the same version and options. Registrations that were refused are refused again. The kubelet's calls are
made with the same bytes, one after another in the order in which they began; each gets 30 s. An answer is the same when
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
"""The time that the plugin has to register, after its start and after each restart of the kubelet."""


async def replay_trace(
    records: Iterable[TrafficRecord],
    command: PluginCommand,
    environ: Mapping[str, str],
    selection: Selection,
    *,
    source: str = "trace",
) -> ReplayReport:
    """Replay a trace to the plugin of ``command``; only what is selected is compared.

    Raises:
        InvalidDocument: the trace has nothing that can be played.
        PluginProgramFailed: the plugin cannot be run, does not register, or ends.
    """
    lives = plan_of(records, source)
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

    async def play(self, life: ReplayedLife) -> None:
        awaited = list(life.registrations)
        while awaited:
            played = await self._next_registration(list(dict.fromkeys(each.resource for each in awaited)))
            resource = played.registration.resource_name
            recorded = next((each for each in awaited if each.resource == resource), None)
            if recorded is None:
                self._tell("Register", resource, [f"{resource} registers once more than in the recording"])
                played.answer(None)
                continue
            awaited.remove(recorded)
            await self._register(recorded, played)
        for call in life.calls:
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

    async def _next_registration(self, resources: list[str]) -> PlayedRegistration:
        came: list[PlayedRegistration] = []

        async def take() -> None:
            came.append(await self._kubelet.next_registration())

        await first(take(), self._subject.ended.wait(), timeout_s=REGISTERS_S)
        if came:
            return came[0]
        wanted = " and ".join(resources)
        if self._subject.ended.is_set():
            raise self._failed(f"{how_ended(self._subject)} before it registered {wanted}")
        raise self._failed(f"has not registered {wanted} within {REGISTERS_S:g} s")

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
