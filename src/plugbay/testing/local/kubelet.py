"""The kubelet of a test, for async code: plugins, pods, restarts, and what the node would show."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from typing import Any

from plugbay.errors import AdmissionError, PodNotFound, UsageError
from plugbay.manager.config import ManagerConfig
from plugbay.manager.manager import DeviceManager
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import PodUid, ResourceName
from plugbay.model.podresources import PodResources
from plugbay.model.requests import PodRequest
from plugbay.ops.changes import Changes
from plugbay.ops.clock import SystemClock
from plugbay.testing.local.commands import CommandOptions
from plugbay.testing.local.expectations import (
    Expectation,
    ExpectationFailed,
    PluginNotReady,
    difference_text,
    sight_text,
)
from plugbay.testing.local.holding import Held, hold
from plugbay.testing.local.manager_life import manager_life
from plugbay.testing.local.plugin_set import PluginsInTest
from plugbay.testing.local.plugins import PluginInTest
from plugbay.testing.local.pods import AdmittedPod, Limits, PodInput, request_of
from plugbay.testing.local.refusals import refused_registrations
from plugbay.testing.local.sights import KubeletSight, sight_of
from plugbay.testing.local.stock.readmission import check_readmission, without_sidecars
from plugbay.testing.local.stock.versions import KubeletRelease, Quirk
from plugbay.testing.local.switchboard import Switchboard
from plugbay.testing.traffic.faults import FaultSwitches
from plugbay.testing.traffic.recorder import TrafficRecorder
from plugbay.wire.message_values import MessageValue


class LocalKubelet:
    """A kubelet's Device Manager on a private directory; made by `local_kubelet`.

    Attributes:
        paths: its directories and sockets.
        faults: switches of faults between it and its plugins.
        traffic: records of all that passed between it and its plugins.
    """

    def __init__(
        self,
        config: ManagerConfig,
        tasks: asyncio.TaskGroup,
        release: KubeletRelease,
        *,
        environ: Mapping[str, str],
        within_s: float,
    ) -> None:
        self.paths = config.paths
        self._config = config
        self._within_s = within_s
        self._tasks = tasks
        self._clock = SystemClock()
        self.faults = FaultSwitches()
        self.traffic = TrafficRecorder(self._clock)
        self._quirks = release.quirks
        self._switchboard = Switchboard(self.traffic, self.faults, release)
        self._changes = Changes()
        self._life: Held[DeviceManager] | None = None
        self._plugins = PluginsInTest(self.paths, tasks, environ=environ, ended=self._changes.notify)
        self._pods: dict[PodUid, PodRequest] = {}
        self._numbers = count(1)

    # --- plugins ----------------------------------------------------------------------------------------------------

    async def plugin(
        self,
        *plugins: Any,
        env: Mapping[str, str] | None = None,
        private_root: bool = False,
        resources: Sequence[str] = (),
        within_s: float | None = None,
        wait: bool = True,
    ) -> PluginInTest:
        """Give it a plugin, and wait until that is registered and has sent a list of devices.

        Args:
            plugins: a command as a list of words; or a plugin to be served in this process: what ``@plugin`` makes, a
                `DevicePlugin` or its class; or several of these, as one process serves them. In a command, and in
                ``env``, ``{plugins}`` is the kubelet's directory for plugins, ``{socket}`` its registration socket,
                ``{root}`` its root. A command that has none of them runs in a mount namespace of its own, in which the
                kubelet's root lies at /var/lib/kubelet: it takes root rights, or user namespaces.
            env: variables of a command, besides those of this process.
            private_root: whether a command runs in such a mount namespace in any case.
            resources: resources to wait for; by default those of the plugin, or any resource of a command.
            within_s: how long to wait.
            wait: whether to wait at all.

        Raises:
            PluginNotReady: it did not register in time; the text says what happened.
            UsageError, InvalidResourceName: this is not a plugin that can be served.
        """
        before = self._endpoints()
        plugin = await self._plugins.start(plugins, CommandOptions(env or {}, private_root, tuple(resources)))
        if wait:
            await self._until_ready(plugin, before, within_s)
        return plugin

    async def end_plugin(self, plugin: PluginInTest) -> None:
        """End a plugin the normal way, as SIGTERM does."""
        await self._plugins.end(plugin)

    def reload_plugin(self, plugin: PluginInTest) -> None:
        """Have a plugin look for devices and register again, as on SIGHUP."""
        self._plugins.running(plugin).reload()

    def signal_plugin(self, plugin: PluginInTest, number: signal.Signals) -> None:
        """Send a signal to a plugin that is a program."""
        self._plugins.running(plugin).send(number)

    # --- pods -------------------------------------------------------------------------------------------------------

    async def admit(
        self,
        pod: PodInput,
        *,
        init: Mapping[str, Limits] | None = None,
        sidecars: Mapping[str, Limits] | None = None,
        name: str = "",
    ) -> AdmittedPod:
        """Admit a pod as a kubelet does: all its containers get their devices, or none gets any.

        Args:
            pod: ``{"example.com/card": 1}``; ``{"train": {"example.com/card": 1}, "log": {}}``; or a manifest, as a
                mapping, as YAML text or as the path of a file.
            init, sidecars: init containers and sidecars of a pod given in brief, each with what it asks for.
            name: the pod's name; by default the manifest's, or ``pod-1`` and so on.

        Raises:
            AdmissionError: a kubelet rejects the pod; the text is the kubelet's.
            InvalidManifest, UsageError: this is not a pod.
        """
        request = request_of(pod, init=init, sidecars=sidecars, name=name, number=next(self._numbers))
        if Quirk.SIDECARS_ARE_INIT_CONTAINERS in self._quirks:
            request = without_sidecars(request)
        await self._manager.admit(request)
        self._pods[request.uid] = request
        return self._admitted(request)

    async def start(self, pod: AdmittedPod | str, container: str | None = None) -> Mapping[str, ContainerEdits]:
        """Prepare containers for their start, which calls PreStartContainer where the plugin wants it.

        Args:
            container: one container; by default all, in the order in which a kubelet starts them.

        Raises:
            AdmissionError: a plugin refused; a kubelet tries such a start again.
        """
        request = self._request(pod)
        names = [each.name for each in request.containers if container in (None, each.name)]
        if not names:
            raise UsageError(f"pod {request.name} has no container {container!r}")
        return {name: await self._manager.prepare_container(request.uid, name) for name in names}

    async def end(self, pod: AdmittedPod | str) -> None:
        """End a pod: its containers stop, and its devices are free again."""
        request = self._request(pod)
        for container in request.containers:
            self._manager.container_ended(request.uid, container.name, f"{container.name}-0")
        await self._manager.release_pod(request.uid)
        await self._manager.until_deallocated(request.uid)
        del self._pods[request.uid]

    # --- what it sees -----------------------------------------------------------------------------------------------

    @property
    def sight(self) -> KubeletSight:
        """All that it sees of plugins and devices now."""
        return sight_of(self._manager.snapshot(), frozenset(self._manager.resources()))

    @property
    def capacity(self) -> dict[str, int]:
        """Number of devices by resource, healthy or not, as the node object shows them."""
        return {name: each.capacity for name, each in self._manager.resources().items()}

    @property
    def allocatable(self) -> dict[str, int]:
        """Number of healthy devices by resource, in use or not, as the node object shows them."""
        return {name: each.allocatable for name, each in self._manager.resources().items()}

    @property
    def health(self) -> dict[str, dict[str, str]]:
        """Device ID to the plugin's word for its health, by resource; ``Unknown`` while the plugin is away."""
        return self.sight.health

    @property
    def pod_resources(self) -> tuple[PodResources, ...]:
        """The answer of the PodResources API to List, sorted. The socket answers as well."""
        reader = self._manager.pod_resources()
        return tuple(reader.pod_v1(pod) for pod in self._manager.admitted_pods.active_pods())

    async def wait_for(
        self,
        condition: Callable[[], bool] | None = None,
        *,
        capacity: Mapping[str, int | None] | None = None,
        allocatable: Mapping[str, int | None] | None = None,
        devices: Mapping[str, Collection[str]] | None = None,
        health: Mapping[str, Mapping[str, str]] | None = None,
        within_s: float | None = None,
    ) -> None:
        """Wait until the kubelet sees what is expected; resources that are not named may be anything.

        Args:
            condition: asked again whenever the kubelet has seen something new.
            capacity, allocatable: number by resource; None for a resource that the node must not show.
            devices: exactly these device IDs, by resource.
            health: the health of these devices, by resource.

        Raises:
            ExpectationFailed: not in time; the text compares what was expected with what was seen.
        """
        expected = Expectation(capacity or {}, allocatable or {}, devices or {}, health or {})
        seconds = self._patience(within_s)
        if await self._until(lambda: expected.is_met(self.sight) and (condition is None or condition()), seconds):
            return
        difference = difference_text(expected, self.sight) or f"{condition!r} is still false"
        raise ExpectationFailed(self._failure(f"not seen within {seconds:g} s (- expected, + seen):\n{difference}"))

    def calls(self, method: str) -> list[MessageValue]:
        """The requests of a method so far, such as ``Allocate`` or ``Register``, as plain values by field names."""
        return [value for record in self.traffic.of(method) if (value := record.value) is not None]

    # --- its lives --------------------------------------------------------------------------------------------------

    async def restart(
        self, *, crash: bool = False, keep_sockets: bool = False, wait: bool = True, within_s: float | None = None
    ) -> Mapping[str, AdmissionError]:
        """Stop and start it; by default wait until all plugins that were registered are registered again.

        Its pods go on, and keep their devices. Only an old kubelet, see ``as_kubelet``, may reject some of them.

        Args:
            crash: see `stop_kubelet`.
            keep_sockets: see `start_kubelet`.
            wait: whether to wait for the plugins. If not, pods are admitted again before any plugin is back.

        Returns:
            See `admit_again`.

        Raises:
            PluginNotReady: a plugin did not come back in time.
        """
        live = [name for name, endpoint in self._endpoints().items() if endpoint is not None]
        await self.stop_kubelet(crash=crash)
        await self.start_kubelet(keep_sockets=keep_sockets)
        if wait:
            await self._until_back(live, within_s)
        return await self.admit_again()

    async def start_kubelet(self, *, keep_sockets: bool = False) -> None:
        """Start it, after `stop_kubelet`.

        Args:
            keep_sockets: whether the sockets of plugins stay; kubelets remove them when they start.
        """
        if self._life is not None:
            raise UsageError("this kubelet runs already")
        self._switchboard.begin(keep_sockets=keep_sockets)
        life = manager_life(self._config, clock=self._clock, changes=self._changes, switchboard=self._switchboard)
        self._life = await hold(self._tasks, life, name="Device Manager")

    async def admit_again(self) -> Mapping[str, AdmissionError]:
        """Admit all pods that have not ended again, as a kubelet does after its start; `restart` does it.

        Every container counts as running, and init containers as completed.

        Returns:
            The rejected pods by name. They have ended, and their devices are free. Our own Device Manager rejects none.
        """
        rejected = {}
        for request in tuple(self._pods.values()):
            try:
                check_readmission(request, self._manager.devices_of(request.uid), self.sight, self._quirks)
                await self._manager.admit(request, running=[each.name for each in request.containers])
            except AdmissionError as error:
                rejected[request.name] = error
                await self.end(request.name)
        return rejected

    async def stop_kubelet(self, *, crash: bool = False) -> None:
        """Stop it; plugins and pods go on without a kubelet.

        Args:
            crash: whether it seems to be killed: connections break without a word, and its socket's file stays.
        """
        if self._life is not None:
            if crash:
                self._switchboard.crash()
            life, self._life = self._life, None
            await life.close()

    async def close(self) -> None:
        """End the kubelet, then the plugins, of which it has nothing to say any more."""
        await self.stop_kubelet()
        await self._plugins.end_all()

    # --- waiting ----------------------------------------------------------------------------------------------------

    @property
    def _manager(self) -> DeviceManager:
        if self._life is None:
            raise UsageError("this kubelet is stopped; start it first")
        return self._life.value

    def _patience(self, within_s: float | None) -> float:
        return self._within_s if within_s is None else within_s

    async def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether the condition became true in time."""
        try:
            async with asyncio.timeout(seconds):
                async for _ in self._changes:
                    if condition():
                        break
        except TimeoutError:
            return condition()
        return True

    def _endpoints(self) -> dict[ResourceName, object]:
        """The connection of each resource that has sent a list over it; None for a resource without one."""
        if self._life is None:
            return {}
        active = {name: self._manager.endpoints.active(name) for name in self._manager.in_use()}
        return {name: each if each and each.table is not None else None for name, each in active.items()}

    async def _until_ready(
        self, plugin: PluginInTest, before: Mapping[ResourceName, object], within_s: float | None
    ) -> None:
        def is_ready() -> bool:
            new = {
                name for name, each in self._endpoints().items() if each is not None and each is not before.get(name)
            }
            return bool(new) if not plugin.resources else new >= set(plugin.resources)

        seconds = self._patience(within_s)
        if await self._until(lambda: is_ready() or plugin.has_ended, seconds) and is_ready():
            return
        problem = "ended before it was ready" if plugin.has_ended else f"was not ready within {seconds:g} s"
        wanted = f"{plugin.name} {problem}: a registration and a list of devices were expected"
        said = self._failure(wanted, plugin)  # before we end it
        await self.end_plugin(plugin)
        raise PluginNotReady(said)

    async def _until_back(self, resources: Sequence[ResourceName], within_s: float | None) -> None:
        seconds = self._patience(within_s)
        if not await self._until(lambda: not self._missing(resources), seconds):
            missing = ", ".join(self._missing(resources))
            raise PluginNotReady(
                self._failure(f"the kubelet was restarted, and {missing} did not register again within {seconds:g} s")
            )

    def _missing(self, resources: Sequence[ResourceName]) -> list[ResourceName]:
        there = self._endpoints()
        return [name for name in resources if there.get(name) is None]

    def _failure(self, problem: str, *plugins: PluginInTest) -> str:
        sight = sight_text(self.sight) if self._life is not None else "the kubelet is stopped"
        accounts = [each.account for each in plugins or self._plugins.all]
        return "\n".join([problem, sight, *refused_registrations(self.traffic), *accounts])

    # --- pods -------------------------------------------------------------------------------------------------------

    def _request(self, pod: AdmittedPod | str) -> PodRequest:
        name = pod if isinstance(pod, str) else pod.name
        uid = None if isinstance(pod, str) else pod.uid
        for request in self._pods.values():
            if request.uid == uid or (uid is None and request.name == name):
                return request
        raise PodNotFound(name)

    def _admitted(self, request: PodRequest) -> AdmittedPod:
        held = self._manager.devices_of(request.uid)
        names = [each.name for each in request.containers]
        return AdmittedPod(
            request.uid,
            request.namespace,
            request.name,
            {name: self._manager.edits(request.uid, name) for name in names},
            {name: {resource: tuple(ids) for resource, ids in held.get(name, {}).items()} for name in names},
        )
