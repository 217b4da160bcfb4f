"""Containers from outside: what they wrote, and commands beside them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from datetime import timedelta
from functools import partial

from plugbay.errors import ContainerNotFound, InstanceNotFound
from plugbay.model.ids import ContainerName
from plugbay.node.api.parameters import is_set, whole_number
from plugbay.node.api.pods import pod_of
from plugbay.node.api.streams.exec_frames import InputDecoder
from plugbay.node.api.streams.exec_session import PROTOCOL, output_frames, serve_session
from plugbay.node.api.streams.spdy_upgrades import SPDY, asks_for, upgrade_required
from plugbay.ops.clock import Clock
from plugbay.ops.routing import HttpError, Request, StreamResponse, UpgradeResponse
from plugbay.pods.record import PodRecord, Running, State, Terminated, Waiting
from plugbay.pods.store.table import PodTable
from plugbay.runtimes.exec_input import Console, ExecInput
from plugbay.runtimes.port import UNTIMED, ContainerId, ContainerRuntime, KeepsLogTimes, LogTimes


class ContainerRoutes:
    def __init__(self, pods: PodTable, runtime: ContainerRuntime, clock: Clock) -> None:
        self._pods = pods
        self._runtime = runtime
        self._clock = clock

    async def log(self, request: Request) -> StreamResponse:
        pod = pod_of(self._pods, request)
        name = _container(pod, request)
        instance = _previous(pod, name) if is_set(request, "previous") else _newest(pod, name)
        follow, tail = is_set(request, "follow"), whole_number(request, "tailLines")
        times = self._times(request)
        if times == UNTIMED:
            return StreamResponse(_passed_on(self._runtime.log(instance, follow=follow, tail=tail)))
        if not isinstance(self._runtime, KeepsLogTimes):
            problem = f"the {self._runtime.name} runtime keeps no times of what containers print, only cri does"
            raise HttpError(400, "BadRequest", problem)
        return StreamResponse(_passed_on(self._runtime.timed_log(instance, times, follow=follow, tail=tail)))

    async def exec(self, request: Request) -> StreamResponse | UpgradeResponse:
        """Stream the output as it comes; with ``stdin=true``, take input too, on an upgraded connection."""
        pod = pod_of(self._pods, request)
        if (request.method == "GET" or request.values("command")) and "upgrade" not in request.headers:
            raise upgrade_required()
        name = _container(pod, request)
        state = pod.containers[name].state
        if not isinstance(state, Running):
            raise HttpError(409, "Conflict", f"container {name} of pod {pod.pod.name} is not running")
        if asks_for(request, "websocket"):
            return self._over_websocket(request, state.id)
        if asks_for(request, SPDY):
            return self._over_spdy(request, state.id)
        command = _command(request.json())
        if not is_set(request, "stdin"):
            chunks = output_frames(self._runtime, state.id, command)
            return StreamResponse(chunks, content_type="application/octet-stream")
        given = ExecInput(Console.TERMINAL if is_set(request, "tty") else Console.PIPES)
        frames = output_frames(self._runtime, state.id, command, given)
        return UpgradeResponse(PROTOCOL, partial(serve_session, frames=frames, given=given, decoder=InputDecoder()))

    def _over_websocket(self, request: Request, instance: ContainerId) -> UpgradeResponse:
        from plugbay.node.api.streams.websocket import exec_over_websocket  # its library takes 2 MB

        return exec_over_websocket(
            request,
            self._runtime,
            instance,
            _words(request),
            console=Console.TERMINAL if is_set(request, "tty") else Console.PIPES,
            takes_input=is_set(request, "stdin"),
        )

    def _over_spdy(self, request: Request, instance: ContainerId) -> UpgradeResponse:
        from plugbay.node.api.streams.spdy_commands import over_spdy

        given = ExecInput(Console.TERMINAL if is_set(request, "tty") else Console.PIPES)
        taken = given if is_set(request, "stdin") or given.console is Console.TERMINAL else None
        return over_spdy(request, self._runtime.exec(instance, _words(request), taken), given)

    def _times(self, request: Request) -> LogTimes:
        since_s = whole_number(request, "sinceSeconds")
        since = self._clock.now() - timedelta(seconds=since_s) if since_s is not None else None
        return LogTimes(since, are_shown=is_set(request, "timestamps"))


async def _passed_on(log: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    try:
        async with aclosing(log) as chunks:
            async for chunk in chunks:
                yield chunk
    except InstanceNotFound:
        return  # removed since we looked


def _container(pod: PodRecord, request: Request) -> ContainerName:
    """The container asked for, or the pod's first app container."""
    name = ContainerName(request.query.get("container") or pod.pod.spec.containers[0].name)
    if name not in pod.containers:
        raise ContainerNotFound(name, pod.pod.name, list(pod.containers))
    return name


def _newest(pod: PodRecord, name: ContainerName) -> ContainerId:
    container = pod.containers[name]
    instance = _instance(container.state) or _instance(container.last)
    if instance is None:
        state = container.state
        what = f"is waiting to start: {state.reason}" if isinstance(state, Waiting) else "is terminated"
        raise HttpError(400, "BadRequest", f'container "{name}" in pod "{pod.pod.name}" {what}')
    return instance


def _previous(pod: PodRecord, name: ContainerName) -> ContainerId:
    instance = _instance(pod.containers[name].last)
    if instance is None:
        problem = f'previous terminated container "{name}" in pod "{pod.pod.name}" not found'
        raise HttpError(400, "BadRequest", problem)
    return instance


def _instance(state: State | None) -> ContainerId | None:
    return state.id if isinstance(state, Running | Terminated) else None


def _words(request: Request) -> list[str]:
    """The command in the query."""
    if not (words := request.values("command")):
        raise HttpError(400, "BadRequest", "you must specify at least 1 command for the container")
    return words


def _command(body: object) -> list[str]:
    command = body.get("command") if isinstance(body, dict) else None
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        raise HttpError(400, "BadRequest", 'the body must be {"command": ["PROGRAM", "ARGUMENT"...]}')
    return command
