"""Logs of containers: the part that a client asks for, and the words for a log that does not exist.

Source: Kubernetes 1.36 ``api/core/v1/types.go`` (PodLogOptions), ``pkg/apis/core/validation`` (ValidatePodLogOptions),
kubelet ``kubelet_pods.go`` (validateContainerLogStatus).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Final

from plugbay.errors import InstanceNotFound
from plugbay.model.ids import ContainerName
from plugbay.node.api.parameters import is_set, whole_number
from plugbay.node.api.pods import pod_of
from plugbay.node.api.streams.choice import container_of
from plugbay.node.api.streams.spdy_upgrades import asks_for
from plugbay.ops.clock import Clock
from plugbay.ops.routing import HttpError, Request, StreamResponse, UpgradeResponse
from plugbay.pods.record import PodRecord, Running, State, Terminated, Waiting
from plugbay.pods.store.table import PodTable
from plugbay.runtimes.port import ContainerId, ContainerRuntime, ExecStream, LogLines

_ALL: Final = "All"
_STREAMS: Final = {"Stdout": ExecStream.STDOUT, "Stderr": ExecStream.STDERR}


class LogRoutes:
    def __init__(self, pods: PodTable, runtime: ContainerRuntime, clock: Clock) -> None:
        self._pods = pods
        self._runtime = runtime
        self._clock = clock

    async def log(self, request: Request) -> StreamResponse | UpgradeResponse:
        pod = pod_of(self._pods, request)
        lines = self._lines(request, pod.pod.name)
        name = container_of(pod, request)
        instance = _previous(pod, name) if is_set(request, "previous") else _newest(pod, name)
        log = self._runtime.log(
            instance, follow=is_set(request, "follow"), tail=whole_number(request, "tailLines"), lines=lines
        )
        chunks = _passed_on(log, limit=whole_number(request, "limitBytes"))
        if not asks_for(request, "websocket"):
            return StreamResponse(chunks)
        from plugbay.node.api.streams.log_messages import log_over_websocket  # its library takes 2 MB

        return log_over_websocket(request, chunks)

    def _lines(self, request: Request, pod: str) -> LogLines:
        """The lines that are asked for.

        Raises:
            HttpError: 422, the options do not go together.
        """
        since_s, since_time = whole_number(request, "sinceSeconds"), request.query.get("sinceTime", "")
        stream = request.query.get("stream") or _ALL
        problems: list[tuple[str, str, str]] = []
        if whole_number(request, "limitBytes") == 0:
            problems.append(("limitBytes", "FieldValueInvalid", "Invalid value: 0: must be greater than 0"))
        if since_s is not None and since_time:
            only_one = "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
            problems.append(("sinceSeconds", "FieldValueForbidden", only_one))
        elif since_s == 0:
            problems.append(("sinceSeconds", "FieldValueInvalid", "Invalid value: 0: must be greater than 0"))
        if stream != _ALL and request.query.get("tailLines"):
            not_both = "Forbidden: `tailLines` and specific `stream` are mutually exclusive for now"
            problems.append(("tailLines", "FieldValueForbidden", not_both))
        if problems:
            raise _invalid(pod, problems)
        since = time_of(since_time) if since_time else None
        if since_s is not None:
            since = self._clock.now() - timedelta(seconds=since_s)
        return LogLines(since, are_timed=is_set(request, "timestamps"), stream=_STREAMS.get(stream))


def _invalid(pod: str, problems: Sequence[tuple[str, str, str]]) -> HttpError:
    """The refusal of options; each problem is a field, a reason and a sentence."""
    sentences = [f"{name}: {sentence}" for name, _, sentence in problems]
    listed = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    causes = [{"field": name, "reason": reason, "message": sentence} for name, reason, sentence in problems]
    details = {"name": pod, "kind": "PodLogOptions", "causes": causes}
    return HttpError(422, "Invalid", f'PodLogOptions "{pod}" is invalid: {listed}', details=details)


def time_of(text: str) -> datetime:
    """A time as RFC 3339 writes it; without a zone it is UTC."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


async def _passed_on(log: AsyncGenerator[bytes, None], *, limit: int | None) -> AsyncGenerator[bytes, None]:
    """The log, or its first ``limit`` bytes."""
    try:
        async with aclosing(log) as chunks:
            async for chunk in chunks:
                if limit is not None and len(chunk) >= limit:
                    yield chunk[:limit]
                    return
                limit = None if limit is None else limit - len(chunk)
                yield chunk
    except InstanceNotFound:
        return  # removed since we looked


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
