"""The process runtime: a container's command runs on the host as it is, with nothing between the wrapper and it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from plugbay.kernel.processes import ProcessIdentity, send_signal, signal_group, wait_end, with_variable
from plugbay.runtimes.exec_input import Console
from plugbay.runtimes.logs.files import DEFAULT_LOGS, LogLimits
from plugbay.runtimes.port import ContainerId, ContainerSpec, Notice, NoticeKind
from plugbay.runtimes.supervised.confinement import Ending, Launch
from plugbay.runtimes.supervised.consoles import TerminalMaker
from plugbay.runtimes.supervised.imageless import unused_image
from plugbay.runtimes.supervised.instance import Instance, start_failure
from plugbay.runtimes.supervised.launch import (
    CONTAINER_VARIABLE,
    MOUNTS_VARIABLE,
    check_paths,
    container_environment,
    moved_paths,
)
from plugbay.runtimes.supervised.records import ProcessRecord
from plugbay.runtimes.supervised.runtime import SupervisedRuntime

_PROC: Final = Path("/proc")
_SHOWN_PATHS: Final = 5


def process_runtime(
    state_dir: Path, *, environ: Mapping[str, str], clock: Callable[[], datetime], logs: LogLimits = DEFAULT_LOGS
) -> SupervisedRuntime:
    """The process runtime.

    Args:
        state_dir: the directory of each container lies here.
        environ: the environment of wrappers; containers get its ``HOME``.
    """
    confinement = Unconfined(home=environ.get("HOME", "/"))
    return SupervisedRuntime(state_dir, environ=environ, clock=clock, confinement=confinement, logs=logs)


class Unconfined:
    """The command itself, on the host: for `Confinement`.

    Args:
        home: what ``HOME`` is in containers.
    """

    name = "process"
    terminal_maker = TerminalMaker.NODE

    def __init__(self, *, home: str) -> None:
        self._home = home

    def launch(
        self, spec: ContainerSpec, container: ContainerId, directory: Path, *, is_given_up: Callable[[], bool]
    ) -> Launch:
        check_paths(spec)
        env = container_environment(spec, home=self._home, directory=directory)
        return Launch(spec.argv, spec.container.working_dir or "/", env)

    def shortcomings(self, spec: ContainerSpec) -> Sequence[Notice]:
        image = unused_image(spec, instead="the process runtime runs the programs of this machine")
        moved = moved_paths(spec)
        if not moved:
            return image
        shown = ", ".join(f"{path} (it is {host_path})" for path, host_path in list(moved.items())[:_SHOWN_PATHS])
        more = f" and {len(moved) - _SHOWN_PATHS} more" if len(moved) > _SHOWN_PATHS else ""
        message = (
            f"The process runtime cannot place {shown}{more}; the variable {MOUNTS_VARIABLE} says where they lie. "
            "--runtime oci and cri place them"
        )
        return [*image, Notice(NoticeKind.WARNING, "PathsNotPlaced", message)]

    async def until_started(self, directory: Path, *, wrapper: ProcessIdentity) -> None:
        """The wrapper has told already."""

    def start_failure(self, instance: Instance, directory: Path) -> str:
        if instance.exit is None or not instance.exit.failed_step:
            return ""
        return start_failure(instance.spec, instance.exit)

    def command(
        self, instance: Instance, argv: Sequence[str], console: Console | None, directory: Path
    ) -> tuple[str, ...]:
        return tuple(argv)

    def command_failure(self, exit_code: int, said: bytes) -> str:
        return ""  # the wrapper tells

    async def kill(self, instance: Instance, record: ProcessRecord) -> None:
        signal_group(record.process, signal.SIGKILL, proc_root=_PROC)

    async def clear(self, instance: Instance, directory: Path) -> None:
        """Kill what left its session and outlived its wrapper; else the wrapper has killed it."""
        if instance.exit is None and instance.process is not None:
            variable, since = f"{CONTAINER_VARIABLE}={directory}", instance.process.wrapper.start_ticks
            while left := await asyncio.to_thread(with_variable, variable, since_ticks=since, proc_root=_PROC):
                for process in left:
                    send_signal(process, signal.SIGKILL, proc_root=_PROC)
                    await wait_end(process, proc_root=_PROC)

    def ending(self, instance: Instance, directory: Path) -> Ending:
        return Ending()
