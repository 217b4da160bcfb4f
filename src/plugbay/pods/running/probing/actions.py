"""Carries out the actions of probes.

Source: kubelet 1.36 ``pkg/kubelet/prober/prober.go`` (``runProbe``), ``pkg/probe``.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Final, assert_never

from plugbay.errors import ExecFailed, InstanceNotFound, InstanceUnreadable, RpcCode, RpcFailed, quote
from plugbay.model.actions import ExecAction, GrpcAction, HttpGetAction, ProbeAction, TcpSocketAction, port_number
from plugbay.model.expansion import expand
from plugbay.model.pods import Container
from plugbay.ops.backoff import go_duration
from plugbay.pods.running.probing.dialing import dial, dial_problem, host_port
from plugbay.pods.running.probing.http_get import KUBELET, HttpGetFailed, get, request_of
from plugbay.pods.running.probing.results import ProbeOutcome, ProbeResult
from plugbay.runtimes.port import ContainerId, ContainerRuntime, ExecExit
from plugbay.values import dataclass
from plugbay.wire.health import SERVING, NotConnected, check_health

_MAX_OUTPUT_BYTES: Final = 10 * 1024
_USER_AGENT: Final = f"kube-probe/{KUBELET}"


@dataclass(frozen=True, slots=True)
class ActionTarget:
    """The container that an action is for.

    Attributes:
        host: the address of its pod.
    """

    container: Container
    instance: ContainerId
    host: str
    runtime: ContainerRuntime


async def probe_once(action: ProbeAction, target: ActionTarget, *, timeout_s: float) -> ProbeResult:
    """Carry out the action once; whatever happens is a result."""
    match action:
        case ExecAction(command):
            return await _probe_command(command, target, timeout_s=timeout_s)
        case GrpcAction(port, service):
            return await _probe_grpc(target.host, port, service, timeout_s=timeout_s)
        case HttpGetAction() | TcpSocketAction():
            try:
                port = port_number(action.port, target.container.ports)
            except ValueError as error:
                return ProbeResult(ProbeOutcome.UNKNOWN, str(error))
            if isinstance(action, TcpSocketAction):
                return await _probe_tcp(action.host or target.host, port, timeout_s=timeout_s)
            return await _probe_http(action, target.host, port, timeout_s=timeout_s)
        case _:
            assert_never(action)


async def _probe_command(command: tuple[str, ...], target: ActionTarget, *, timeout_s: float) -> ProbeResult:
    env = {variable.name: variable.value for variable in target.container.env}
    argv = [expand(word, env) for word in command]
    output = bytearray()
    try:
        async with asyncio.timeout(timeout_s), aclosing(target.runtime.exec(target.instance, argv)) as items:
            async for item in items:
                if isinstance(item, ExecExit):
                    outcome = ProbeOutcome.SUCCESS if item.exit_code == 0 else ProbeOutcome.FAILURE
                    return ProbeResult(outcome, output.decode(errors="replace"))
                output += item.chunk[: _MAX_OUTPUT_BYTES - len(output)]
    except TimeoutError:
        shown = f"{quote(' '.join(argv))} timed out after {go_duration(timeout_s)}"
        return ProbeResult(ProbeOutcome.FAILURE, f"command timed out: {shown}")
    except (ExecFailed, InstanceNotFound, InstanceUnreadable) as error:
        return ProbeResult(ProbeOutcome.UNKNOWN, str(error))
    return ProbeResult(ProbeOutcome.UNKNOWN, f"the end of command {quote(' '.join(argv))} is not known")


async def _probe_http(action: HttpGetAction, host: str, port: int, *, timeout_s: float) -> ProbeResult:
    try:
        answer = await get(request_of(action, host=host, port=port, purpose="probe"), timeout_s=timeout_s)
    except HttpGetFailed as failed:
        return ProbeResult(ProbeOutcome.UNFINISHED if failed.has_begun else ProbeOutcome.FAILURE, failed.problem)
    if 200 <= answer.status < 300:
        return ProbeResult(ProbeOutcome.SUCCESS)
    if 300 <= answer.status < 400:
        body = answer.body.decode(errors="replace")
        return ProbeResult(ProbeOutcome.WARNING, f"Probe terminated redirects, Response body: {body}")
    return ProbeResult(ProbeOutcome.FAILURE, f"HTTP probe failed with statuscode: {answer.status}")


async def _probe_tcp(host: str, port: int, *, timeout_s: float) -> ProbeResult:
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await dial(host, port)
    except OSError as error:
        return ProbeResult(ProbeOutcome.FAILURE, dial_problem(host, port, error))
    writer.close()
    return ProbeResult(ProbeOutcome.SUCCESS)


async def _probe_grpc(host: str, port: int, service: str, *, timeout_s: float) -> ProbeResult:
    allowed = go_duration(timeout_s)
    try:
        status = await check_health(host, port, service, timeout_s=timeout_s, user_agent=_USER_AGENT)
    except NotConnected:
        where = quote(host_port(host, port))
        text = f"timeout: failed to connect service {where} within {allowed}: context deadline exceeded"
    except RpcFailed as error:
        match error.code:
            case RpcCode.UNIMPLEMENTED:
                unknown = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health)"
                text = f"{unknown}: {error.detail}"
            case RpcCode.DEADLINE_EXCEEDED:
                text = f"timeout: health rpc did not complete within {allowed}"
            case _:
                text = f"error: health rpc probe failed: {error}"
    else:
        if status == SERVING:
            return ProbeResult(ProbeOutcome.SUCCESS)
        text = f"service unhealthy (responded with {quote(status)})"
    return ProbeResult(ProbeOutcome.FAILURE, text)
