"""Plugins that a test runs as programs of their own."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from plugbay.errors import UsageError
from plugbay.testing.conformance.reasons import CannotJudge
from plugbay.testing.conformance.subject.command import PluginCommand
from plugbay.testing.conformance.subject.process import Subject, signal_name, start_subject
from plugbay.testing.local.expectations import PluginNotReady
from plugbay.testing.local.holding import Held, hold
from plugbay.testing.local.plugins import RunningPlugin
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """How a program is started; see `LocalKubelet.plugin`."""

    env: Mapping[str, str] = field(default_factory=dict)
    private_root: bool = False
    resources: Sequence[str] = ()


class CommandPlugin(RunningPlugin):
    """A program that a test runs; made by `start_command`."""

    def __init__(self, name: str, resources: Sequence[str], held: Held[Subject]) -> None:
        super().__init__(name, resources)
        self._held = held

    @property
    def has_ended(self) -> bool:
        return not self._held.value.is_running

    @property
    def pid(self) -> int | None:
        return self._held.value.pid

    @property
    def exit_code(self) -> int | None:
        return self._held.value.exit_code

    @property
    def output(self) -> str:
        return self._held.value.output.text

    @property
    def account(self) -> str:
        code = self.exit_code
        if code is None:
            state = f"runs (pid {self.pid})"
        elif code < 0:
            state = f"was ended by {signal_name(-code)}"
        else:
            state = f"ended with exit code {code}"
        if not (output := self.output.rstrip()):
            return f"{self.name} {state}; it printed nothing"
        lines = [f"  | {line}" for line in output.splitlines()]
        return "\n".join([f"{self.name} {state}; the end of its output:", *lines])

    def send(self, number: signal.Signals) -> None:
        self._held.value.send(number)

    def reload(self) -> None:
        self.send(signal.SIGHUP)

    async def end(self) -> None:
        await self._held.close()


async def start_command(
    words: Sequence[str],
    options: CommandOptions,
    root: Path,
    tasks: asyncio.TaskGroup,
    *,
    environ: Mapping[str, str],
    ended: Callable[[], object],
) -> CommandPlugin:
    """Start a program that finds the kubelet of ``root``.

    Args:
        ended: called when it has ended.

    Raises:
        PluginNotReady: the program is not there, or cannot be run.
        UsageError: there is no program.
    """
    if not words or not words[0]:
        raise UsageError("a command begins with the name of a program")
    name = Path(words[0]).name
    command = PluginCommand(tuple(words), options.env, always_enclosed=options.private_root)
    try:
        held = await hold(tasks, start_subject(command, root, environ), name=f"plugin {name}")
    except CannotJudge as error:
        raise PluginNotReady(str(error)) from None
    tasks.create_task(_tell(held.value, ended), name=f"end of plugin {name}")
    return CommandPlugin(name, options.resources, held)


async def _tell(subject: Subject, ended: Callable[[], object]) -> None:
    await subject.ended.wait()
    ended()
