"""Post-start and pre-stop hooks: a command in the container, a request to it, or a sleep.

Source: kubelet 1.36 ``pkg/kubelet/lifecycle/handlers.go``.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import assert_never

from plugbay.errors import ExecFailed, InstanceNotFound, InstanceUnreadable, quote
from plugbay.model.actions import ExecAction, Hook, HttpGetAction, HttpScheme, SleepAction, port_number
from plugbay.model.pods import Container
from plugbay.ops.tasks import first
from plugbay.pods.running.account import PodAccount
from plugbay.pods.running.probing.http_get import GetRequest, HttpGetFailed, get, request_of
from plugbay.pods.status import address
from plugbay.runtimes.port import ContainerId, ContainerRuntime, ExecExit


async def run_hook(
    hook: Hook, container: Container, instance: ContainerId, *, pod: PodAccount, runtime: ContainerRuntime
) -> str:
    """Run a hook and return its problem, empty if there is none.

    The output of a command is lost, as with a kubelet, and so is the answer to a request, whatever its status.
    """
    match hook:
        case SleepAction(seconds):
            await first(pod.clock.sleep(seconds), until_ended(instance, runtime))
            return ""
        case ExecAction(command):
            return await _run_command(command, instance, runtime)
        case HttpGetAction():
            return await _request(hook, container, pod)
        case _:
            assert_never(hook)


async def until_ended(instance: ContainerId, runtime: ContainerRuntime) -> None:
    """Return when the instance no longer runs, or is not known any more; never if that cannot be found out."""
    try:
        await runtime.wait(instance)
    except InstanceNotFound:
        return
    except InstanceUnreadable:
        await asyncio.Event().wait()


async def _run_command(command: tuple[str, ...], instance: ContainerId, runtime: ContainerRuntime) -> str:
    shown = " ".join(map(quote, command))
    try:
        async with aclosing(runtime.exec(instance, command)) as items:
            async for item in items:
                if isinstance(item, ExecExit) and item.exit_code != 0:
                    return f"command {shown} exited with {item.exit_code}"
    except (ExecFailed, InstanceNotFound, InstanceUnreadable) as error:
        return str(error)
    return ""


async def _request(hook: HttpGetAction, container: Container, pod: PodAccount) -> str:
    try:
        port = port_number(hook.port, container.ports)
        request = request_of(hook, host=address(pod.record), port=port, purpose="lifecycle")
        await get(request)
    except ValueError as error:
        return str(error)
    except HttpGetFailed as failed:
        # Kubelets sent plain HTTP whatever the scheme, until 1.24: there are hooks that count on it.
        return await _request_plainly(request, pod) if failed.is_plain else failed.problem
    return ""


async def _request_plainly(request: GetRequest, pod: PodAccount) -> str:
    try:
        await get(replace(request, scheme=HttpScheme.HTTP))
    except HttpGetFailed as failed:
        return failed.problem
    told = f"request to HTTPS lifecycle hook {request.url} got HTTP response, retried with HTTP succeeded"
    pod.warning("LifecycleHTTPFallback", told)
    return ""
