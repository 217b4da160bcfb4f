"""Post-start and pre-stop hooks: a command in the container, or a sleep."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import assert_never

from plugbay.errors import ExecFailed, InstanceNotFound, InstanceUnreadable, quote
from plugbay.model.pods import ExecHook, Hook, SleepHook
from plugbay.ops.clock import Clock
from plugbay.ops.tasks import first
from plugbay.runtimes.port import ContainerId, ContainerRuntime, ExecExit


async def run_hook(hook: Hook, instance: ContainerId, *, runtime: ContainerRuntime, clock: Clock) -> str:
    """Run a hook and return its problem, empty if there is none. The output of a command is lost, as with a kubelet."""
    match hook:
        case SleepHook(seconds):
            await first(clock.sleep(seconds), until_ended(instance, runtime))
            return ""
        case ExecHook(command):
            return await _run_command(command, instance, runtime)
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
