"""Play a recording to our Device Manager, and compare what it decides and asks with the recording.

The manager is a private one, with the settings of the recorded one if that was ours. Each plugin of the recording is
played: it registers, sends its lists and answers as recorded. The pods ask one after another, in the order in which
they began to. Compared are registrations, admissions and their devices, starts of containers, and every call to a
plugin, but not times. Where the recording is of another manager, or has pods from before it, the played plugins prefer
the devices that were given out, since which of equal devices a kubelet takes is chance.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any, Final

from plugbay.errors import AdmissionError, RpcFailed
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.manager import DeviceManager, run_manager
from plugbay.manager.state import Live
from plugbay.model.ids import ContainerName, PodUid, ResourceName
from plugbay.model.requests import ContainerRequest, PodRequest
from plugbay.ops.clock import Clock
from plugbay.ops.tasks import background, ungrouped
from plugbay.testing.local.opening import private_directory
from plugbay.testing.tracing.manager.derived_pods import devices_asked
from plugbay.testing.tracing.manager.played_plugins import RELEASES, PlayedPlugin, RecordedAnswers
from plugbay.testing.tracing.manager.script import (
    PluginAct,
    PluginTurn,
    PodTurn,
    RecordedCall,
    script_of,
)
from plugbay.testing.tracing.manager.settings import config_for
from plugbay.testing.tracing.report import ReplayedStep, ReplayReport
from plugbay.testing.tracing.selection import Selection
from plugbay.traffic.file_format import RecordedLine, RecordingHeader
from plugbay.traffic.pod_events import PodEvent, RecordedStep
from plugbay.traffic.secret_texts import MASK, masked_text
from plugbay.wire.grpc.channel import Channel
from plugbay.wire.message_values import LIST_AND_WATCH, REGISTER, message_value
from plugbay.wire.registration import Registration, encode_registration, moved_registration

TAKES_S: Final = 10.0
"""The time in which the manager has to take a list, or the end of a stream."""
_RELEASES_S: Final = 5.0
_REGISTERS_S: Final = 20.0


async def replay_to_manager(
    header: RecordingHeader, lines: Iterable[RecordedLine], selection: Selection, *, clock: Clock, source: str
) -> ReplayReport:
    """Replay a recording to a manager of ours; only what is selected is told.

    Raises:
        InvalidDocument: the recording has nothing that can be played, or its manager's settings are damaged.
    """
    script = script_of(lines, source)
    with ungrouped(), private_directory() as root:
        config = config_for(header, script, root, source)
        async with run_manager(config, clock=clock) as manager, AsyncExitStack() as plugins:
            is_steered = not header.manager or script.has_held_pods
            replay = _Replay(manager, config.paths, script.calls, selection, plugins, is_steered=is_steered)
            await plugins.enter_async_context(background(replay.follow(), name="changes of the manager"))
            for turn in script.turns:
                await replay.take(turn)
            replay.answers.reach(math.inf)
            await replay.answers.until_released(math.inf, _RELEASES_S)
            replay.tell_unmade()
            return replay.report


class _Replay:
    def __init__(
        self,
        manager: DeviceManager,
        paths: KubeletPaths,
        calls: list[RecordedCall],
        selection: Selection,
        stack: AsyncExitStack,
        *,
        is_steered: bool,
    ) -> None:
        self.report = ReplayReport()
        self.answers = RecordedAnswers(calls, is_steered=is_steered, tell=self._tell_call)
        self._manager = manager
        self._paths = paths
        self._names: dict[str, str] = {}
        self._calls = calls
        self._selection = selection
        self._stack = stack
        self._plugins: dict[str, PlayedPlugin] = {}
        self._lists: dict[str, bytes] = {}
        self._count = 0
        self._line = 0

    async def take(self, turn: PluginTurn | PodTurn) -> None:
        self._line = turn.line
        self.answers.reach(turn.line)
        self.answers.until_line = max(self.answers.until_line, turn.line)
        if isinstance(turn, PluginTurn) or turn.event.step is RecordedStep.ADMIT:
            # Those that are free by now may be given out, and a plugin that goes cannot be called any more.
            await self.answers.until_released(turn.line, _RELEASES_S, self._is_released)
        if isinstance(turn, PluginTurn):
            await self._plugin(turn)
        else:
            self.answers.until_line = max(self.answers.until_line, turn.until_line)
            await self._pod(turn)

    async def follow(self) -> None:
        """Look again at what is done whenever the manager has changed, until cancelled."""
        async for _ in self._manager.changes():
            self.answers.look_again()

    def tell_unmade(self) -> None:
        """Tell of recorded calls that were not made now."""
        for call in self._calls:
            if not call.is_made and not (call.method in RELEASES and call.answer is None):
                self._tell_call(call, call.title, ["called in the recording, not called now"])

    # --- plugins ----------------------------------------------------------------------------------------------------

    async def _plugin(self, turn: PluginTurn) -> None:
        plugin = self._plugins.get(turn.resource)
        match turn.act:
            case PluginAct.REGISTER:
                if plugin is not None:
                    await plugin.close()
                await self._register(turn)
            case PluginAct.LIST if plugin is not None and turn.list is not None:
                message = turn.list.whole(self._lists.get(turn.resource, b""))
                self._lists[turn.resource] = message
                plugin.send(message)
                if (wanted := _devices(message)) is not None and not await self._until(turn.resource, wanted):
                    problem = f"the manager has not taken this list within {TAKES_S:g} s"
                    self._tell(turn.line, turn.resource, "ListAndWatch", [problem])
            case PluginAct.END if plugin is not None:
                plugin.end_streams()
                await self._until(turn.resource, None)

    async def _register(self, turn: PluginTurn) -> None:
        self._count += 1
        paths = self._paths
        plugin = PlayedPlugin(turn.resource, paths.device_plugins / f"replayed-{self._count}.sock", self.answers)
        await plugin.serve()
        self._stack.push_async_callback(plugin.close)
        self._plugins[turn.resource] = plugin
        moved = moved_registration(turn.message, lambda _: plugin.socket.name) if turn.message else None
        made = Registration("v1beta1", plugin.socket.name, turn.resource)
        channel, failure = Channel(paths.registration_socket), None
        try:
            request = encode_registration(made) if moved is None else moved[1]
            await channel.unary(REGISTER, request, timeout_s=_REGISTERS_S)
        except RpcFailed as error:
            failure = error
        finally:
            await channel.close()
        if turn.is_answered:
            before, now = (_said(each, "accepted") for each in (turn.refusal, failure))
            self._tell(turn.line, turn.resource, "Register", _differ(before, now))

    async def _until(self, resource: str, devices: dict[str, Any] | None) -> bool:
        """Wait until the manager has these devices of a live plugin, or for None, until the plugin is away."""
        try:
            async with asyncio.timeout(TAKES_S):
                async for _ in self._manager.changes():
                    found = next((each for each in self._manager.resource_snapshots() if each.name == resource), None)
                    is_live = found is not None and isinstance(found.endpoint, Live)
                    if devices is None:
                        if not is_live:
                            return True
                    elif found is not None and is_live:
                        listed = {each.id: (each.health, each.numa_nodes) for each in found.devices if each.is_listed}
                        if listed == devices:
                            return True
        except TimeoutError:
            pass
        return False

    # --- pods -------------------------------------------------------------------------------------------------------

    async def _pod(self, turn: PodTurn) -> None:
        event, manager = turn.event, self._manager
        uid, container = PodUid(event.uid), ContainerName(event.container)
        match event.step:
            case RecordedStep.HELD:
                await self._hold(event)
            case RecordedStep.ENDED:
                manager.container_ended(uid, container, event.instance)
            case RecordedStep.NOT_STARTED:
                manager.container_not_started(uid, container)
            case RecordedStep.RELEASE:
                await manager.release_pod(uid)
            case RecordedStep.ADMIT | RecordedStep.PREPARE:
                if turn.outcome is None:
                    self._tell_pod(turn, None)
                elif event.step is RecordedStep.ADMIT:
                    await self._admit(turn, turn.outcome)
                else:
                    await self._prepare(turn, turn.outcome)

    async def _hold(self, event: PodEvent) -> None:
        """Admit a pod that had its devices before the recording; a device that is not listed now comes from nowhere."""
        for resources in event.devices.values():
            for resource, ids in resources.items():
                self.answers.held[resource] = (*self.answers.held.get(resource, ()), *ids)
        problems = []
        try:
            await self._manager.admit(_request(event))
            problems = self._given_otherwise(event)
        except AdmissionError as error:
            problems = [str(error)]
        finally:
            self.answers.held.clear()
        if problems:
            problem = f"its devices cannot be given to it before: {'; '.join(problems)}"
            self._tell(self._line, "", f"held by pod {self._name(event)}", None, problem)

    async def _admit(self, turn: PodTurn, outcome: PodEvent) -> None:
        now = ""
        try:
            await self._manager.admit(
                _request(turn.event), running=[ContainerName(each) for each in turn.event.running]
            )
        except AdmissionError as error:
            now = _words(turn, f"refused: {error}")
        before = _words(turn, f"refused: {outcome.problem}") if outcome.step is RecordedStep.REFUSED else ""
        differences = _differ_in_words(before or "admitted", now or "admitted")
        if not before and not now:
            differences = self._given_otherwise(outcome)
        self._tell_pod(turn, differences)

    def _given_otherwise(self, outcome: PodEvent) -> list[str]:
        """The devices that a pod has now, where they are not those of the recording."""
        held, differences = self._manager.devices_of(PodUid(outcome.uid)), []
        for container, resources in outcome.devices.items():
            for resource, ids in resources.items():
                given = held.get(ContainerName(container), {}).get(ResourceName(resource), ())
                for each in _differ(", ".join(ids), ", ".join(given)):
                    differences.append(f"{container}: {resource}: {each}")
        return differences

    def _is_released(self, call: RecordedCall) -> bool:
        """Whether the manager has heard of the end of a call by which devices become free."""
        devices = devices_asked(call.method, call.request)
        return all(tuple(sorted(each.devices)) != devices for each in self._manager.release_operations())

    async def _prepare(self, turn: PodTurn, outcome: PodEvent) -> None:
        now = "prepared"
        try:
            await self._manager.prepare_container(PodUid(turn.event.uid), ContainerName(turn.event.container))
        except AdmissionError as error:
            now = _words(turn, f"not prepared: {error}")
        before = "prepared"
        if outcome.step is RecordedStep.NOT_PREPARED:
            before = _words(turn, f"not prepared: {outcome.problem}")
        self._tell_pod(turn, _differ_in_words(before, now))

    # --- what is told -----------------------------------------------------------------------------------------------

    def _name(self, event: PodEvent) -> str:
        """A pod by its name, which comes with its first event; else by its UID."""
        if event.name:
            self._names[event.uid] = f"{event.namespace}/{event.name}"
        return self._names.get(event.uid, event.uid)

    def _tell_pod(self, turn: PodTurn, differences: list[str] | None) -> None:
        about = turn.event.container and f" container {turn.event.container}"
        title = f"{turn.event.step.value} of pod {self._name(turn.event)}{about}"
        self._tell(turn.line, "", title, differences)

    def _tell_call(self, call: RecordedCall | None, title: str, differences: list[str]) -> None:
        resource, _, method = title.partition("  ")
        self._tell(self._line if call is None else call.line, resource, method, differences)

    def _tell(self, line: int, resource: str, title: str, differences: list[str] | None, reason: str = "") -> None:
        if self._selection.methods and title not in self._selection.methods:
            return
        if self._selection.resources and resource not in self._selection.resources:
            return
        told = None if differences is None else tuple(differences)
        about = f"{resource}  {title}" if resource else title
        self.report.steps.append(
            ReplayedStep(f"line {line}  {about}", told, reason or "it has no answer in the recording")
        )


def _request(event: PodEvent) -> PodRequest:
    containers = tuple(
        ContainerRequest(
            ContainerName(each.name), each.kind, {ResourceName(name): count for name, count in each.limits.items()}
        )
        for each in event.containers
    )
    return PodRequest(PodUid(event.uid), event.namespace, event.name, containers)


def _words(turn: PodTurn, text: str) -> str:
    """A refusal; of a pod that the recording does not tell of, no text is known."""
    return text.partition(":")[0] if turn.is_derived else text


def _said(failure: RpcFailed | None, otherwise: str) -> str:
    return otherwise if failure is None else str(failure)


def _differ(before: str, now: str) -> list[str]:
    return [] if before == now else [f"{before} in the recording, {now} now"]


def _differ_in_words(before: str, now: str) -> list[str]:
    """As `_differ`, but up to a secret in ``before``: how much is masked with it depends on the text around it."""
    known, mask, _ = before.partition(MASK)
    return [] if mask and masked_text(now).startswith(known) else _differ(before, now)


def _devices(message: bytes) -> dict[str, Any] | None:
    """Health and NUMA nodes of a list's devices, of which the last one of an ID counts; None if it cannot be read."""
    value = message_value(LIST_AND_WATCH, message, is_answer=True)
    if value is None:
        return None
    return {each.get("ID", ""): (each.get("health", ""), _nodes(each)) for each in value.get("devices", [])}


def _nodes(device: dict[str, Any]) -> tuple[int, ...] | None:
    if "topology" not in device:
        return None
    return tuple(node.get("ID", 0) for node in device["topology"].get("nodes", []))
