"""Runs a recording's script on a node of ours, and writes down what is seen in the recording's form.

The node, its plugins and its clock live in this process; containers are real processes. Everything is faster than it
was: the clock, the plugins' delays and the containers' sleeps. Before each step the driver waits until what had been
recorded by then has been seen, and until as much time has passed as lay between the steps.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import re
import signal
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from plugbay.cli.kubectl.client import NodeClient
from plugbay.errors import RequestRefused, RpcCode, RpcFailed
from plugbay.kernel.watch import watch_paths
from plugbay.node.config import NodeConfig
from plugbay.node.control import RunningNode
from plugbay.node.run import open_node
from plugbay.topology.settings import TopologySettings
from tests.replay.beds import PROCESSES, Bed, status_of
from tests.replay.clock import FastClock
from tests.replay.compare import comparable, is_like, is_reached
from tests.replay.looking import Looker
from tests.replay.manifests import manifest_of
from tests.replay.notebook import Notebook, counted
from tests.replay.places import Places
from tests.replay.recording import Json, Recording, Snapshot, Step, Who, until
from tests.replay.scripted_plugin import ScriptedPlugin

PATIENCE_S: Final = 2.0
"""How long to wait for what was recorded; what has not come then is a difference, and not waited for again."""
RETRY_S: Final = 12.0
"""Of the recording's time: what a node tries again comes so much later when it has just been tried."""
LEAST_TIMEOUT_S: Final = 1.0
"""Of calls to plugins, however fast the clock runs: what they need to answer does not shrink."""
NODE: Final = "n1"
CLEARING_S: Final = 60
STARTING_S: Final = 30
BURST_S: Final = 0.005
"""Changes come in bursts, and looking at all that was seen takes time."""
PODS: Final = "/api/v1/namespaces/default/pods"


class NotReplayable(Exception):
    """The script has a step that our node has no way to do."""


async def replay(
    recording: Recording, root: Path, *, speed: float, unlike: Collection[str] = (), bed: Bed = PROCESSES
) -> Json:
    """The observations of a node of ours.

    Args:
        unlike: patterns of what is known to be different, and not waited for.
    """
    driver = _Driver(recording, root, speed, unlike, bed)
    try:
        async with asyncio.TaskGroup() as tasks:
            return await driver.run(tasks)
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from group
        raise


class _Driver:
    def __init__(self, recording: Recording, root: Path, speed: float, unlike: Collection[str], bed: Bed) -> None:
        self._recording = recording
        self._speed = speed
        self._unlike = unlike
        self._clock = FastClock(speed)
        self._bed = bed
        self._places = Places(root, cdi=bed.cdi)
        config = NodeConfig(
            self._places.kubelet,
            name=NODE,
            call_timeout_s=max(60 / speed, LEAST_TIMEOUT_S),
            dial_timeout_s=max(10 / speed, LEAST_TIMEOUT_S),
            pre_start_timeout_s=max(30 / speed, LEAST_TIMEOUT_S),
            fake_numa_nodes=1,
        )
        self._config = bed.configured(config, self._places.cdi)
        self._client = NodeClient(self._config.root)
        self._notebook = Notebook(recording.plugins, runtime=bed.runtime)
        self._looker = Looker(
            self._config.kubelet_paths, self._notebook, self._places, recorded_ids=self._recorded_ids, unlike=unlike
        )
        self._plugins = {
            name: ScriptedPlugin(script, places=self._places, speed=speed, log=self._notebook.logger(name))
            for name, script in recording.plugins.items()
        }
        self._life: asyncio.Task[None] | None = None
        self._ready, self._over = asyncio.Event(), asyncio.Event()
        self._running: RunningNode | None = None
        self._given_up: set[str] = set()
        self._postponed: list[Step] = []
        self._watchers: list[asyncio.Task[None]] = []

    async def run(self, tasks: asyncio.TaskGroup) -> Json:
        self._places.furnish(self._recording.cdi_spec)
        try:
            await self._start_node(tasks)
            before_s = 0.0
            for each in self._recording.script:
                await self._catch_up(each.at_s, since_s=before_s)
                before_s = each.at_s
                if self._life is not None and not (isinstance(each, Step) and each.who is Who.PLUGIN):
                    await self._ready.wait()
                if isinstance(each, Snapshot):
                    assert self._running is not None, "nobody looks at a node that is down"
                    self._notebook.snapshots[each.key] = await self._looker.look(self._running, each)
                else:
                    await self._do(each, tasks)
            await self._catch_up(self._recording.duration_s, since_s=before_s)
            if self._running is not None:
                self._notebook.metrics = counted(self._running)
            return copy.deepcopy(self._notebook.observations())
        finally:
            await self._clear(tasks)
            self._places.clear()

    # --- steps ------------------------------------------------------------------------------------------------------

    async def _catch_up(self, at_s: float, *, since_s: float) -> None:
        """Wait until all is seen that had been by ``at_s``, and then for as long as nothing happened before that."""
        if at_s == since_s:
            return
        before = until(self._recording.observations, at_s)
        wanted = {path: value for path, value in comparable(before).items() if not is_like(path, self._unlike)}

        def missing() -> set[str]:
            seen = comparable(self._notebook.observations())
            return {path for path, value in wanted.items() if not is_reached(path, value, seen.get(path))}

        try:
            async with asyncio.timeout(PATIENCE_S + (RETRY_S + at_s - since_s) / self._speed):
                async for _ in self._notebook.changes:
                    if missing() <= self._given_up:
                        break
                    await asyncio.sleep(BURST_S)
        except TimeoutError:
            self._given_up |= missing()
        # The script's own pause: what was to happen in it could not be waited for if it did not happen.
        quiet_since_s = max([since_s, *(row["t"] for row in _happenings(before))])
        await asyncio.sleep((at_s - quiet_since_s) / self._speed)

    async def _do(self, step: Step, tasks: asyncio.TaskGroup) -> None:
        match step.who:
            case Who.PLUGIN:
                await self._do_plugin(self._plugins[step.subject], step, tasks)
            case Who.POD if self._running is None:
                self._postponed.append(step)  # a kubelet's API server is there without it, ours is not
            case Who.POD if step.action == "created":
                manifest = manifest_of(
                    step.subject, self._recording.pods[step.subject], speed=self._speed, image=self._bed.image
                )
                await asyncio.to_thread(self._client.create, PODS, manifest)
            case Who.POD:
                await self._until_trapped(step.subject)
                await self._delete(step.subject, step.args.get("gracePeriodSeconds"))
            case Who.NODE:
                await self._do_node(step, tasks)

    async def _do_plugin(self, plugin: ScriptedPlugin, step: Step, tasks: asyncio.TaskGroup) -> None:
        match step.action:
            case "started":
                await plugin.start()
                self._watchers.append(tasks.create_task(_let_die(plugin)))
            case "serve":
                await plugin.serve()
            case "register":
                await plugin.register(self._config.kubelet_paths.registration_socket, step.args)
            case "killed (SIGKILL)":
                await plugin.stop()
            case "devices":
                plugin.send(step.args["devices"])
            case "resend":
                plugin.send()
            case "set":
                plugin.set(step.args["key"], step.args["value"])
            case "end_stream":
                plugin.end_streams()
            case "fail_stream":
                plugin.end_streams(RpcFailed(RpcCode[step.args["code"].upper()], step.args["text"]))
            case "registration socket removed":
                plugin.remove_registration_socket()
            case unknown:
                raise NotReplayable(f"plugin: {unknown}")

    async def _do_node(self, step: Step, tasks: asyncio.TaskGroup) -> None:
        match step.action:
            case "kubelet stopped (SIGTERM)" | "kubelet stopped (SIGKILL)":
                await self._stop_node()
            case "kubelet started":
                if self._life is None:  # else it was to have crashed
                    self._config = replace(self._config, topology=_topology(step.args))
                    await self._start_node(tasks)
            case "checkpoint removed":
                self._config.kubelet_paths.checkpoint.unlink()
            case "all files of the device plugin directory removed":
                for path in self._config.kubelet_paths.device_plugins.iterdir():
                    path.unlink()
            case "checksum in the file made wrong":
                path = self._config.kubelet_paths.checkpoint
                path.write_bytes(re.sub(rb'"Checksum":\d+', b'"Checksum":1', path.read_bytes()))
            case (
                "kubelet answers /healthz and kubelet.sock exists"
                | "own socket is gone"
                | "own socket is gone, kubelet.sock exists"
                | "checkpoint read before any PodResources call"
            ):
                pass  # the recorder looked, and so did we before this step
            case passed if "while the kubelet was down" in passed:
                pass  # as above
            case passed if passed.startswith("policy "):
                pass  # with which the kubelet was started before
            case unknown:
                raise NotReplayable(unknown)

    async def _until_trapped(self, name: str) -> None:
        """Until a pod's containers have set their traps; the recorder never was so fast that it had to wait."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while any(map(_lacks_trap, self._processes(name))):  # noqa: ASYNC110  # of which nobody tells
                    await asyncio.sleep(BURST_S)

    def _processes(self, pod: str) -> list[Path]:
        """The first ones of a pod's containers that have not ended, in the proc file system."""
        uids = [uid for uid, name in self._notebook.uids.items() if name == pod]
        return [each for uid in uids for each in self._bed.first_processes(self._config, uid)]

    async def _delete(self, name: str, grace_s: int | None) -> None:
        query = {} if grace_s is None else {"gracePeriodSeconds": str(grace_s)}
        if grace_s == 0:
            self._notebook.forced.add(name)
        with contextlib.suppress(RequestRefused):  # gone already
            await asyncio.to_thread(self._client.delete, f"{PODS}/{name}", query)

    async def _do_postponed(self, tasks: asyncio.TaskGroup) -> None:
        """What was deleted by force while the kubelet was down is gone before it looks."""
        postponed, self._postponed = self._postponed, []
        for step in postponed:
            await self._do(step, tasks)
        await self._until_gone({each.subject for each in postponed} & self._notebook.forced)

    async def _until_gone(self, names: Collection[str]) -> None:
        assert self._running is not None
        async with asyncio.timeout(CLEARING_S):
            async for _ in self._notebook.changes:
                if not {record.pod.name for record in self._running.pods} & set(names):
                    break

    # --- the node ---------------------------------------------------------------------------------------------------

    async def _start_node(self, tasks: asyncio.TaskGroup) -> None:
        """Until it takes plugins; it waits for those it knew before it is ready, as a kubelet does."""
        self._ready, self._over = asyncio.Event(), asyncio.Event()
        self._life = tasks.create_task(self._live(tasks))
        socket = self._config.kubelet_paths.registration_socket
        async with asyncio.timeout(STARTING_S), watch_paths([socket]) as changes:
            while not socket.exists():
                await anext(changes)

    async def _stop_node(self) -> None:
        """The same for every signal: what a crash leaves is for the tests of durability, not for these."""
        self._over.set()
        if self._life is not None:
            await self._life
            self._life = None

    async def _live(self, tasks: asyncio.TaskGroup) -> None:
        try:
            async with (
                open_node(self._config, environ=os.environ, clock=self._clock) as self._running,
                asyncio.TaskGroup() as followers,
            ):
                follower = followers.create_task(self._notebook.follow(self._running))
                await self._do_postponed(tasks)
                self._ready.set()
                await self._over.wait()
                self._notebook.metrics = counted(self._running)
                follower.cancel()
        finally:
            self._running = None
            self._ready.set()  # nobody waits for one that cannot start

    async def _clear(self, tasks: asyncio.TaskGroup) -> None:
        """Leave no process behind."""
        for plugin in self._plugins.values():
            await plugin.stop()
        for task in self._watchers:
            task.cancel()
        if self._life is None:
            await self._start_node(tasks)
        await self._ready.wait()
        assert self._running is not None
        left = [record.pod.name for record in self._running.pods]
        for name in left:
            await self._delete(name, 0)
        await self._until_gone(left)
        await self._stop_node()

    def _recorded_ids(self, resource: str, ids: Iterable[str]) -> list[str]:
        for plugin in self._plugins.values():
            if plugin.resource == resource:
                return [plugin.aliases.recorded(each) for each in ids]
        return list(ids)


def _topology(configuration: Json) -> TopologySettings:
    """Of a kubelet's configuration, as far as it was changed."""
    return TopologySettings(
        configuration.get("topologyManagerPolicy", "none"), configuration.get("topologyManagerScope", "container")
    )


def _lacks_trap(process: Path) -> bool:
    """Whether SIGTERM would end a process that runs."""
    try:
        status = status_of(process)
    except OSError:
        return False  # it has ended
    return not status["State"].startswith("Z") and not int(status["SigCgt"], 16) >> signal.SIGTERM - 1 & 1


def _happenings(observations: Json) -> Iterator[Json]:
    """What came from a step or a container; the node's numbers follow in their own time."""
    for key in ("plugin_log", "pods"):
        for rows in observations[key].values():
            yield from rows
    yield from observations["events"]


async def _let_die(plugin: ScriptedPlugin) -> None:
    await plugin.died()
    await plugin.stop()
