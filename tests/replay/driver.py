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
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from plugbay.cli.client import NodeClient
from plugbay.errors import CorruptCheckpoint, RequestRefused, RpcFailed
from plugbay.kernel.watch import watch_paths
from plugbay.kubelet.checkpoint import parse
from plugbay.model.podresources import ContainerDevices, PodResources
from plugbay.node.broadcast import Change
from plugbay.node.config import NodeConfig
from plugbay.node.objects import pod_object
from plugbay.node.parts import NodeParts
from plugbay.node.runner import open_node
from plugbay.ops.changes import Changes
from plugbay.wire.convert import decode_edits
from plugbay.wire.podresources import PodResourcesCalls
from tests.replay.clock import FastClock
from tests.replay.compare import comparable, comparable_checkpoint, is_like, is_reached
from tests.replay.recording import KUBELET_ROOT, Json, Recording, Snapshot, Step, Who, ended_pods, until
from tests.replay.scripted_plugin import ScriptedPlugin

PATIENCE_S: Final = 2.0
"""How long to wait for what was recorded; what has not come then is a difference, and not waited for again."""
LEAST_TIMEOUT_S: Final = 1.0
"""Of calls to plugins, however fast the clock runs: what they need to answer does not shrink."""
NODE: Final = "n1"
CLEARING_S: Final = 10
BURST_S: Final = 0.005
"""Changes come in bursts, and looking at all that was seen takes time."""
GRACE_S: Final = 2.0
"""The recorded pods' grace period. Ours have the shortest there is, which is longer: it is not in our clock's time."""
TRAP_S: Final = 0.05
"""Of a container's, to set its traps: the recorder never was so fast that it had to wait for that."""
PODS: Final = "/api/v1/namespaces/default/pods"


class NotReplayable(Exception):
    """The script has a step that our node has no way to do."""


async def replay(recording: Recording, root: Path, *, speed: float, unlike: Collection[str] = ()) -> Json:
    """The observations of a node of ours.

    Args:
        unlike: patterns of what is known to be different, and not waited for.
    """
    driver = _Driver(recording, root, speed, unlike)
    try:
        async with asyncio.TaskGroup() as tasks:
            return await driver.run(tasks)
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from group
        raise


class _Driver:
    def __init__(self, recording: Recording, root: Path, speed: float, unlike: Collection[str]) -> None:
        self._recording = recording
        self._root = root
        self._speed = speed
        self._config = NodeConfig(
            root / "k",
            name=NODE,
            call_timeout_s=max(60 / speed, LEAST_TIMEOUT_S),
            dial_timeout_s=max(10 / speed, LEAST_TIMEOUT_S),
            pre_start_timeout_s=max(30 / speed, LEAST_TIMEOUT_S),
        )
        self._client = NodeClient(self._config.root)
        self._clock = FastClock(speed)
        self._changes = Changes()
        self._given_up: set[str] = set()
        self._postponed: list[Step] = []
        self._forced: set[str] = set()
        self._unlike = unlike
        self._plugins: dict[str, ScriptedPlugin] = {}
        self._watchers: list[asyncio.Task[None]] = []
        self._node = AsyncExitStack()
        self._parts: NodeParts | None = None
        self._events: dict[str, Json] = {}
        self._uids: dict[str, str] = {}
        self.seen: Json = {
            "plugin_log": {name: [] for name in recording.plugins},
            "node": [],
            "pods": {},
            "events": [],
            "snapshots": {},
        }

    async def run(self, tasks: asyncio.TaskGroup) -> Json:
        for name, script in self._recording.plugins.items():
            plugin = ScriptedPlugin(script, place=self._place, speed=self._speed, log=self._logger(name))
            self._plugins[name] = plugin
        for folder in ("drv", "drv2"):
            (self._root / "work" / folder).mkdir(parents=True)
        (self._root / "work" / "afile").write_text("a file\n")
        try:
            await self._start_node()
            before_s = 0.0
            for each in self._recording.script:
                await self._catch_up(each.at_s, since_s=before_s)
                before_s = each.at_s
                if isinstance(each, Snapshot):
                    self.seen["snapshots"][each.key] = await self._snapshot(each)
                else:
                    await self._do(each, tasks)
            await self._catch_up(self._recording.duration_s, since_s=before_s)
            return copy.deepcopy(self.now())
        finally:
            await self._clear()

    # --- steps ------------------------------------------------------------------------------------------------------

    async def _catch_up(self, at_s: float, *, since_s: float) -> None:
        """Wait until all is seen that had been by ``at_s``, and then for as long as nothing happened before that."""
        if at_s == since_s:
            return
        before = until(self._recording.observations, at_s)
        wanted = {path: value for path, value in comparable(before).items() if not is_like(path, self._unlike)}

        def missing() -> set[str]:
            seen = comparable(self.now())
            return {path for path, value in wanted.items() if not is_reached(path, value, seen.get(path))}

        try:
            async with asyncio.timeout(PATIENCE_S + (at_s - since_s) / self._speed):
                async for _ in self._changes:
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
            case Who.POD if self._parts is None:
                self._postponed.append(step)  # a kubelet's API server is there without it, ours is not
            case Who.POD if step.action == "created":
                manifest = manifest_of(step.subject, self._recording.pods[step.subject], speed=self._speed)
                await asyncio.to_thread(self._client.create, PODS, manifest)
            case Who.POD:
                await asyncio.sleep(TRAP_S)
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
                plugin.end_streams(RpcFailed(step.args["code"].capitalize(), step.args["text"]))
            case "registration socket removed":
                plugin.remove_registration_socket()
            case unknown:
                raise NotReplayable(f"plugin: {unknown}")

    async def _do_node(self, step: Step, tasks: asyncio.TaskGroup) -> None:
        match step.action:
            case "kubelet stopped (SIGTERM)" | "kubelet stopped (SIGKILL)":
                await self._stop_node()
            case "kubelet started":
                if self._parts is None:  # else it was to have crashed
                    await self._start_node()
                    for postponed in self._take_postponed():
                        await self._do(postponed, tasks)
            case "checkpoint removed":
                self._config.kubelet_paths.checkpoint.unlink()
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
            case unknown:
                raise NotReplayable(unknown)

    async def _delete(self, name: str, grace_s: int | None) -> None:
        query = {} if grace_s is None else {"gracePeriodSeconds": str(grace_s)}
        if grace_s == 0:
            self._forced.add(name)
        with contextlib.suppress(RequestRefused):  # gone already
            await asyncio.to_thread(self._client.delete, f"{PODS}/{name}", query)

    def _take_postponed(self) -> list[Step]:
        postponed, self._postponed = self._postponed, []
        return postponed

    # --- the node ---------------------------------------------------------------------------------------------------

    async def _start_node(self) -> None:
        await self._node.enter_async_context(self._followed())

    async def _stop_node(self) -> None:
        """The same for every signal: what a crash leaves is for the tests of durability, not for these."""
        await self._node.aclose()

    @asynccontextmanager
    async def _followed(self) -> AsyncIterator[None]:
        async with open_node(self._config, environ=os.environ, clock=self._clock) as parts:
            followers = [self._follow_pods(parts), self._follow_node(parts), self._follow_events(parts)]
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(each) for each in followers]
                self._parts = parts
                try:
                    yield
                finally:
                    self._parts = None
                    for task in running:
                        task.cancel()

    async def _clear(self) -> None:
        """Leave no process behind."""
        for plugin in self._plugins.values():
            await plugin.stop()
        for task in self._watchers:
            task.cancel()
        if self._parts is None:
            await self._start_node()
        assert self._parts is not None
        left = [record.pod.name for record in self._parts.pods]
        for name in left:
            await self._delete(name, 0)
        async with asyncio.timeout(CLEARING_S):
            async for _ in self._changes:
                if not list(self._parts.pods):
                    break
        await self._stop_node()

    # --- what is seen -----------------------------------------------------------------------------------------------

    def now(self) -> Json:
        return {**self.seen, "events": list(self._events.values())}

    def _logger(self, plugin: str) -> Callable[[Json], None]:
        def log(row: Json) -> None:
            self.seen["plugin_log"][plugin].append(row)
            self._changes.notify()

        return log

    async def _follow_pods(self, parts: NodeParts) -> None:
        subscription = parts.pods.watch()
        while True:
            for change, record in await subscription.next():
                name = record.pod.name
                self._uids[record.uid] = name
                rows = self.seen["pods"].setdefault(name, [])
                shown: Json = dict(pod_object(record, runtime="process"))
                status = shown["status"]
                if "deletionTimestamp" in shown["metadata"]:
                    status |= {"deletionTimestamp": "set"}
                if name not in self._forced:  # an API server removes such a pod at once, and shows nothing of its end
                    rows.append(status)
                if change is Change.DELETED:
                    rows.append({"object": "gone"})
                self._changes.notify()

    async def _follow_node(self, parts: NodeParts) -> None:
        async for _ in parts.devices.changes():
            self.seen["node"].append({"resources": _counts(parts)})
            self._changes.notify()

    async def _follow_events(self, parts: NodeParts) -> None:
        subscription = parts.events.watch()
        while True:
            for _, event in await subscription.next():
                self._events[event.name] = {
                    "pod": event.about.name,
                    "type": event.type.value,
                    "reason": event.reason,
                    "message": event.message,
                    "count": event.count,
                    "container": event.about.field_path,
                }
                self._changes.notify()

    async def _snapshot(self, wanted: Snapshot) -> Json:
        assert self._parts is not None
        found: Json = {"node": _counts(self._parts), "ended": ended_pods(self.seen["pods"])}
        if "checkpoint" in wanted.seen:
            found["checkpoint"] = await self._checkpoint(wanted)
        if "podresources" in wanted.seen:
            found["podresources"] = await self._pod_resources(wanted.seen["podresources"].get("v1_get", {}))
        return found

    async def _checkpoint(self, wanted: Snapshot) -> Json:
        """The file, which follows what happens with a delay: when it says what was recorded, or at the last."""
        path, ended = self._config.kubelet_paths.checkpoint, wanted.seen["ended"]
        recorded = {
            part: value
            for part, value in comparable_checkpoint(wanted.seen["checkpoint"], ended).items()
            if not is_like(f"snapshots/{wanted.key}/{part}", self._unlike)
        }

        def is_current(found: Json) -> bool:
            return recorded.items() <= comparable_checkpoint(found, ended).items()

        found: Json = {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S / 4), watch_paths([path]) as changes:
                while not is_current(found := self._read_checkpoint(path)):
                    await anext(aiter(changes))
        return found

    def _read_checkpoint(self, path: Path) -> Json:
        try:
            checkpoint = parse(path.read_bytes(), source=str(path))
        except (FileNotFoundError, CorruptCheckpoint) as error:
            return {"error": str(error)}
        entries = checkpoint.data.pod_device_entries
        return {
            "mode": f"{path.stat().st_mode & 0o7777:04o}",
            "sum_valid": checkpoint.is_valid,
            "entries": [
                {
                    "pod": f"<uid {self._uids.get(entry.pod_uid, entry.pod_uid)}>",
                    "container": entry.container_name,
                    "resource": entry.resource_name,
                    "devices": {str(node): list(ids or ()) for node, ids in (entry.device_ids or {}).items()},
                    "response": self._response(entry.alloc_resp or b""),
                }
                for entry in entries or ()
            ],
            "registered": {
                name: self._recorded_ids(name, ids or ())
                for name, ids in (checkpoint.data.registered_devices or {}).items()
            },
        }

    def _response(self, encoded: bytes) -> Json:
        edits = decode_edits(encoded)
        return {
            "envs": dict(edits.env),
            "mounts": [[each.container_path, self._recorded(each.host_path), each.read_only] for each in edits.mounts],
            "devices": [[each.container_path, each.host_path, each.permissions] for each in edits.device_nodes],
            "annotations": dict(edits.annotations),
            "cdi_devices": list(edits.cdi_devices),
        }

    async def _pod_resources(self, gets: Mapping[str, Any]) -> Json:
        calls = PodResourcesCalls(self._config.kubelet_paths.pod_resources_socket, timeout_s=10)
        try:
            allocatable = await calls.allocatable_v1()
            return {
                "v1_list": [_pod(each) for each in await calls.list_v1()],
                "v1alpha1_list": [_pod(each) for each in await calls.list_v1alpha1()],
                "v1_allocatable": {
                    "devices": [
                        {**_devices(each), "device_ids": self._recorded_ids(each.resource, each.device_ids)}
                        for each in allocatable.devices
                    ]
                },
                "v1_get": {name: await _get(calls, name) for name in gets},
            }
        finally:
            await calls.close()

    # --- places -----------------------------------------------------------------------------------------------------

    def _place(self, path: str) -> Path:
        """Where a path of the recorded machine is here."""
        if path.startswith(KUBELET_ROOT):
            return self._config.root / path.removeprefix(f"{KUBELET_ROOT}/")
        if path.startswith("$WORK"):
            return self._root / "work" / path.removeprefix("$WORK/")
        raise NotReplayable(f"path {path}")

    def _recorded(self, path: str) -> str:
        return path.replace(str(self._root / "work"), "$WORK")

    def _recorded_ids(self, resource: str, ids: Iterable[str]) -> list[str]:
        for plugin in self._plugins.values():
            if plugin.resource == resource:
                return [plugin.aliases.recorded(each) for each in ids]
        return list(ids)


def manifest_of(name: str, spec: Json, *, speed: float) -> Json:
    """A pod like the recorded one, without its image and with shorter sleeps."""
    containers = {
        key: [_container(each, speed) for each in spec[key]] for key in ("initContainers", "containers") if key in spec
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {**spec, **containers, "terminationGracePeriodSeconds": 1},
    }


def _container(raw: Json, speed: float) -> Json:
    command = raw["command"]
    if command == "prints itself, then sleeps":
        command = ["sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"]
    return {**raw, "image": "busybox", "command": [*command[:2], _script(command[2], speed), *command[3:]]}


def _script(script: str, speed: float) -> str:
    def shorter(match: re.Match[str]) -> str:
        seconds = int(match[1])
        return f"sleep {seconds / speed if seconds < 1000 else seconds}"

    script = re.sub(r"sleep (\d+)", shorter, script.replace("prints itself", "env"))
    if "trap" in script:
        return script
    # The first process of a container does not notice SIGTERM, and is killed if it is there when its time is over.
    script = re.sub(r"(sleep [0-9.]+)", r"(trap '' TERM; exec \1) & p=$!; wait $p || wait $p", script)
    return f"trap '{{ sleep {GRACE_S / speed}; kill -KILL 0; }} &' TERM; {script}"


def _happenings(observations: Json) -> Iterator[Json]:
    """What came from a step or a container; the node's numbers follow in their own time."""
    for key in ("plugin_log", "pods"):
        for rows in observations[key].values():
            yield from rows
    yield from observations["events"]


async def _let_die(plugin: ScriptedPlugin) -> None:
    await plugin.died()
    await plugin.stop()


def _counts(parts: NodeParts) -> Json:
    return {name: [str(each.capacity), str(each.allocatable)] for name, each in parts.devices.resources().items()}


async def _get(calls: PodResourcesCalls, name: str) -> Json:
    try:
        return _pod(await calls.get_v1("default", name))
    except RpcFailed as error:
        return {"error": [error.code.upper(), error.detail]}


def _pod(pod: PodResources) -> Json:
    containers = [{"name": each.name, "devices": [_devices(item) for item in each.devices]} for each in pod.containers]
    return {"name": pod.name, "namespace": pod.namespace, "containers": containers}


def _devices(item: ContainerDevices) -> Json:
    nodes = None if item.numa_nodes is None else list(item.numa_nodes)
    return {"resource_name": item.resource, "device_ids": list(item.device_ids), "numa_nodes": nodes}
