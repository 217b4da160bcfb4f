"""The kubelet of a test, for async code: plugins, pods, restarts, and what the node would show."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from itertools import count
from pathlib import Path
from typing import Any

from plugbay.errors import AdmissionError, PodNotFound, UsageError
from plugbay.manager.config import ManagerConfig
from plugbay.manager.manager import DeviceManager
from plugbay.model.edits import ContainerEdits
from plugbay.model.ids import PodUid
from plugbay.model.podresources import PodResources
from plugbay.model.requests import PodRequest
from plugbay.ops.changes import Changes
from plugbay.ops.clock import SystemClock
from plugbay.ops.listening import TcpAddress
from plugbay.testing.local.awaiting import Awaiting
from plugbay.testing.local.clients import ApiClients
from plugbay.testing.local.commands import CommandOptions
from plugbay.testing.local.expectations import Expectation, ExpectationFailed, difference_text
from plugbay.testing.local.lives import KubeletLives
from plugbay.testing.local.plugin_set import PluginsInTest
from plugbay.testing.local.plugins import PluginInTest
from plugbay.testing.local.pods import AdmittedPod, FinishedPod, Limits, PodInput, pod_to_run, request_of
from plugbay.testing.local.settings import KubeletSettings
from plugbay.testing.local.sights import KubeletSight
from plugbay.testing.local.stock.readmission import check_readmission, without_sidecars
from plugbay.testing.local.stock.versions import KubeletRelease, Quirk
from plugbay.testing.local.switchboard import Switchboard
from plugbay.testing.traffic.faults import FaultSwitches
from plugbay.traffic.recorder import TrafficRecorder
from plugbay.wire.message_values import MessageValue, known_method


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
        settings: KubeletSettings,
    ) -> None:
        self.paths = config.paths
        self._within_s = settings.within_s
        clock = SystemClock()
        self.faults = FaultSwitches()
        self.traffic = TrafficRecorder(clock)
        self._quirks = release.quirks
        self._changes = Changes()
        self._lives = KubeletLives(
            config,
            tasks,
            Switchboard(self.traffic, self.faults, release),
            clock=clock,
            changes=self._changes,
            environ=environ,
            is_node=settings.is_node,
            api=TcpAddress("127.0.0.1", 0) if settings.api else None,
        )
        self._has_api = settings.api
        self._plugins = PluginsInTest(self.paths, tasks, environ=environ, ended=self._changes.notify)
        self._awaiting = Awaiting(self._lives, self._plugins, self._changes, self.traffic)
        one_at_a_time = Quirk.ONE_ADMISSION_AT_A_TIME in self._quirks
        self._admitting: AbstractAsyncContextManager[object] = asyncio.Lock() if one_at_a_time else nullcontext()
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
        before = self._awaiting.endpoints()
        plugin = await self._plugins.start(plugins, CommandOptions(env or {}, private_root, tuple(resources)))
        if wait:
            await self._awaiting.until_ready(plugin, before, self._patience(within_s))
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
        if self._lives.is_node:
            raise UsageError("a node admits the pods that it runs: give this one to run()")
        request = request_of(pod, init=init, sidecars=sidecars, name=name, number=next(self._numbers))
        if Quirk.SIDECARS_ARE_INIT_CONTAINERS in self._quirks:
            request = without_sidecars(request)
        async with self._admitting:
            await self._manager.admit(request)
        self._pods[request.uid] = request
        return self._admitted(request)

    async def run(
        self, pod: PodInput, *, command: Sequence[str] = (), name: str = "", within_s: float | None = None
    ) -> FinishedPod:
        """Run a pod to its end, as a plain process on this machine; it takes the option ``node=True``.

        Args:
            pod: a manifest, in any of the forms of `admit`; or the devices of the only container of a pod.
            command: the command of that container.

        Raises:
            ExpectationFailed: it has not ended in time; the text says what it waits for.
            InvalidManifest, PodExists, UsageError: this is not a pod, or cannot be run.
        """
        node = self._lives.now.node
        if node is None:
            raise UsageError("this kubelet runs no pods; open it with node=True")
        from plugbay.testing.local.nodes import run_on

        wanted = pod_to_run(pod, command, name=name, number=next(self._numbers))
        return await run_on(node, wanted, within_s=self._patience(within_s))

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
        return self._awaiting.sight

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

        def is_met() -> bool:
            return expected.is_met(self.sight) and (condition is None or condition())

        if await self._awaiting.until(is_met, seconds):
            return
        difference = difference_text(expected, self.sight) or f"{condition!r} is still false"
        problem = f"not seen within {seconds:g} s (- expected, + seen):\n{difference}"
        raise ExpectationFailed(self._awaiting.failure(problem))

    def calls(self, method: str) -> list[MessageValue]:
        """The requests of a method so far, such as ``Allocate`` or ``Register``, as plain values by field names.

        Raises:
            UsageError: there is no such method.
        """
        name = known_method(method)
        return [value for record in self.traffic.of(name) if (value := record.value) is not None]

    @property
    def kubeconfig(self) -> Path:
        """The file by which kubectl and every client of Kubernetes reach the node; it takes the option ``api=True``.

        It is right after a restart too.
        """
        if not self._has_api:
            raise UsageError("this kubelet serves no API of Kubernetes; open it with api=True")
        from plugbay.node.config import kubeconfig_path  # a Device Manager alone does without the node

        return kubeconfig_path(self.paths.root)

    @property
    def clients(self) -> ApiClients:
        """Ready clients of the node's API, of the libraries that are installed; it takes the option ``api=True``."""
        return ApiClients(self.kubeconfig)

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
        live = [name for name, endpoint in self._awaiting.endpoints().items() if endpoint is not None]
        await self.stop_kubelet(crash=crash)
        await self.start_kubelet(keep_sockets=keep_sockets)
        if wait:
            await self._awaiting.until_back(live, self._patience(within_s))
        return await self.admit_again()

    async def start_kubelet(self, *, keep_sockets: bool = False) -> None:
        """Start it, after `stop_kubelet`.

        Args:
            keep_sockets: whether the sockets of plugins stay; kubelets remove them when they start.
        """
        await self._lives.start(keep_sockets=keep_sockets)

    async def admit_again(self) -> Mapping[str, AdmissionError]:
        """Admit all pods that have not ended again, as a kubelet does after its start; `restart` does it.

        Every container counts as running, and init containers as completed.

        Returns:
            The rejected pods by name. They have ended, and their devices are free. Our own Device Manager rejects none.
        """
        rejected: dict[str, AdmissionError] = {}
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
        await self._lives.stop(crash=crash)

    async def close(self) -> None:
        """End the kubelet and its pods, then the plugins, of which it has nothing to say any more."""
        if self._lives.is_running and (node := self._lives.now.node) is not None:
            from plugbay.testing.local.nodes import delete_pods

            await delete_pods(node)
        await self.stop_kubelet()
        await self._plugins.end_all()

    # ----------------------------------------------------------------------------------------------------------------

    @property
    def _manager(self) -> DeviceManager:
        return self._lives.now.manager

    def _patience(self, within_s: float | None) -> float:
        return self._within_s if within_s is None else within_s

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
