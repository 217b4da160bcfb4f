"""Containers from outside: commands beside them, and clients attached to them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from plugbay.errors import AttachFailed, ExecFailed
from plugbay.model.pods import Container
from plugbay.node.api.parameters import is_set
from plugbay.node.api.pods import pod_of
from plugbay.node.api.resources import PODS
from plugbay.node.api.streams.choice import container_of
from plugbay.node.api.streams.exec_status import SessionOutput
from plugbay.node.api.streams.spdy_upgrades import SPDY, asks_for, upgrade_required
from plugbay.ops.routing import HttpError, Request, Response, UpgradeResponse
from plugbay.pods.record import PodRecord, Running
from plugbay.pods.store.table import PodTable
from plugbay.runtimes.exec_input import Console, ExecInput
from plugbay.runtimes.port import ContainerId, ContainerRuntime, ExecExit, ExecOutput


class ContainerRoutes:
    def __init__(self, pods: PodTable, runtime: ContainerRuntime) -> None:
        self._pods = pods
        self._runtime = runtime

    async def exec(self, request: Request) -> UpgradeResponse:
        """Run a command: the client reads what it prints, and with ``stdin=true`` writes what it reads."""
        pod = pod_of(self._pods, request)
        if not _switches(request):
            raise upgrade_required()
        _, instance = _running(pod, request)
        if not (argv := request.values("command")):
            raise HttpError(400, "BadRequest", "you must specify at least 1 command for the container")
        given = ExecInput(Console.TERMINAL if is_set(request, "tty") else Console.PIPES)
        taken = given if is_set(request, "stdin") or given.console is Console.TERMINAL else None
        return _switched(request, self._runtime.exec(instance, argv, taken), given)

    async def attach(self, request: Request) -> UpgradeResponse:
        """Let the client read what the container prints from now on, and write what it reads.

        Source: Kubernetes 1.36 ``kubelet/pkg/cri/streaming/remotecommand/attach.go``.
        """
        pod = pod_of(self._pods, request)
        container, instance = _running(pod, request)
        if not _switches(request):
            raise upgrade_required()
        given = ExecInput(Console.TERMINAL if container.tty else Console.PIPES)
        gives_input = is_set(request, "stdin") and container.stdin
        output = self._runtime.attach(instance, given, gives_input=gives_input)
        return _switched(request, _with_end(output), given)

    async def refuse_to_add(self, request: Request) -> Response:
        """Say that no container is added to a pod that runs, for ``kubectl debug``."""
        pod = pod_of(self._pods, request)
        problem = (
            "containers cannot be added to a pod that runs here (ephemeralcontainers); "
            f"kubectl exec runs a command beside a container of pod {pod.pod.name}"
        )
        raise HttpError(405, "MethodNotAllowed", problem, details={"name": pod.pod.name, "kind": PODS.plural})


def _running(pod: PodRecord, request: Request) -> tuple[Container, ContainerId]:
    """The container asked for, and its instance that runs now.

    Raises:
        HttpError: 400 or 409, there is none.
    """
    name = container_of(pod, request)
    state = pod.containers[name].state
    if not isinstance(state, Running):
        raise HttpError(409, "Conflict", f"container {name} of pod {pod.pod.name} is not running")
    spec = pod.pod.spec
    return next(each for each in (*spec.containers, *spec.init_containers) if each.name == name), state.id


def _switches(request: Request) -> bool:
    """Whether the client asks for a protocol with streams."""
    return asks_for(request, "websocket") or asks_for(request, SPDY)


def _switched(request: Request, output: SessionOutput, given: ExecInput) -> UpgradeResponse:
    if asks_for(request, SPDY):
        from plugbay.node.api.streams.spdy_commands import over_spdy

        return over_spdy(request, output, given)
    from plugbay.node.api.streams.websocket import over_websocket  # its library takes 2 MB

    return over_websocket(request, output, given)


async def _with_end(output: AsyncGenerator[ExecOutput, None]) -> SessionOutput:
    """The output of a container, and at its end a success: how it ended is said by the pod's status."""
    try:
        async with aclosing(output) as items:
            async for item in items:
                yield item
    except ExecFailed as error:
        raise AttachFailed(error.container, error.problem) from error
    yield ExecExit(0)
