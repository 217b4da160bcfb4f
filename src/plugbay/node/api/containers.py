"""Containers from outside: what they wrote, and commands beside them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final

from plugbay.errors import ContainerNotFound, ExecFailed, InstanceNotFound
from plugbay.model.ids import ContainerName
from plugbay.node.api.pods import pod_of, whole_number
from plugbay.node.pods import PodTable
from plugbay.node.records import PodRecord, Running, State, Terminated, Waiting
from plugbay.node.runtimes.port import ContainerId, ContainerRuntime, ExecExit, ExecOutput
from plugbay.ops.routing import HttpError, Request, StreamResponse

_EXIT_CHANNEL: Final = 3
_STDERR_CHANNEL: Final = 2
_CANNOT_RUN_EXIT_CODE: Final = 126


class ContainerRoutes:
    def __init__(self, pods: PodTable, runtime: ContainerRuntime) -> None:
        self._pods = pods
        self._runtime = runtime

    async def log(self, request: Request) -> StreamResponse:
        pod = pod_of(self._pods, request)
        name = _container(pod, request)
        instance = _previous(pod, name) if _is_set(request, "previous") else _newest(pod, name)
        tail = whole_number(request, "tailLines")
        return StreamResponse(self._log(instance, follow=_is_set(request, "follow"), tail=tail))

    async def exec(self, request: Request) -> StreamResponse:
        pod = pod_of(self._pods, request)
        name = _container(pod, request)
        state = pod.containers[name].state
        if not isinstance(state, Running):
            raise HttpError(409, "Conflict", f"container {name} of pod {pod.pod.name} is not running")
        chunks = self._exec(state.id, _command(request.json()))
        return StreamResponse(chunks, content_type="application/octet-stream")

    async def _log(self, instance: ContainerId, *, follow: bool, tail: int | None) -> AsyncIterator[bytes]:
        try:
            async with aclosing(self._runtime.log(instance, follow=follow, tail=tail)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except InstanceNotFound:
            return  # removed since we looked

    async def _exec(self, instance: ContainerId, argv: list[str]) -> AsyncIterator[bytes]:
        try:
            async with aclosing(self._runtime.exec(instance, argv)) as items:
                async for item in items:
                    yield _frame_of(item)
        except (ExecFailed, InstanceNotFound) as error:
            yield _frame(_STDERR_CHANNEL, f"error: {error}\n".encode())
            yield _exit(_CANNOT_RUN_EXIT_CODE)


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
        reason = container.state.reason if isinstance(container.state, Waiting | Terminated) else ""
        problem = f'container "{name}" in pod "{pod.pod.name}" is waiting to start: {reason}'
        raise HttpError(400, "BadRequest", problem)
    return instance


def _previous(pod: PodRecord, name: ContainerName) -> ContainerId:
    instance = _instance(pod.containers[name].last)
    if instance is None:
        problem = f'previous terminated container "{name}" in pod "{pod.pod.name}" not found'
        raise HttpError(400, "BadRequest", problem)
    return instance


def _instance(state: State | None) -> ContainerId | None:
    return state.id if isinstance(state, Running | Terminated) else None


def _command(body: object) -> list[str]:
    command = body.get("command") if isinstance(body, dict) else None
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        raise HttpError(400, "BadRequest", 'the body wants {"command": ["PROGRAM", "ARGUMENT"...]}')
    return command


def _is_set(request: Request, key: str) -> bool:
    return request.query.get(key, "") in ("true", "1")


# --- frames: channel, length in four bytes, payload ----------------------------------------------------------------


def _frame_of(item: ExecOutput | ExecExit) -> bytes:
    match item:
        case ExecOutput(stream, chunk):
            return _frame(stream.value, chunk)
        case ExecExit(exit_code):
            return _exit(exit_code)


def _exit(exit_code: int) -> bytes:
    return _frame(_EXIT_CHANNEL, json.dumps({"exitCode": exit_code}).encode())


def _frame(channel: int, payload: bytes) -> bytes:
    return bytes([channel]) + len(payload).to_bytes(4, "big") + payload
