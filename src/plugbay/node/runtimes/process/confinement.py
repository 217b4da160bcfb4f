"""What stands between a wrapper and its container's command: nothing, or an engine that puts it into namespaces."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from plugbay.kernel.processes import ProcessIdentity, send_signal, signal_group, wait_end, with_variable
from plugbay.node.runtimes.exec_input import Console
from plugbay.node.runtimes.imageless import unused_image
from plugbay.node.runtimes.port import ContainerId, ContainerSpec, Notice, NoticeKind
from plugbay.node.runtimes.process.launch import (
    CONTAINER_VARIABLE,
    MOUNTS_VARIABLE,
    check_paths,
    container_environment,
    moved_paths,
)
from plugbay.node.runtimes.process.records import Instance, ProcessRecord, start_failure

_PROC: Final = Path("/proc")
_SHOWN_PATHS: Final = 5


@dataclass(frozen=True, slots=True)
class Launch:
    """What the wrapper of an instance runs, and what the instance's directory holds for it.

    Attributes:
        files: content of files, by their path in the directory; directories are made as needed.
        links: symbolic links, by their path in the directory.
        directories: those that would not be made otherwise.
        open_files: empty files that everybody may write, by their path in the directory.
    """

    argv: tuple[str, ...]
    working_dir: str
    env: Mapping[str, str]
    files: Mapping[str, bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    directories: tuple[str, ...] = ()
    open_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ending:
    """What is known of an end besides the exit code.

    Attributes:
        reason: empty where the exit code tells.
        message: the container's own last words.
    """

    reason: str = ""
    message: str = ""


class Confinement(Protocol):
    """How containers are started, entered and ended. ``directory`` is always that of the instance."""

    name: str

    def launch(self, spec: ContainerSpec, container: ContainerId, directory: Path) -> Launch:
        """Look at what the container counts on, and say how it is run; may wait for the disk. Changes nothing.

        Raises:
            ContainerStartError: it cannot be made as it is wanted.
        """
        ...

    def shortcomings(self, spec: ContainerSpec) -> Sequence[Notice]:
        """What the container asks for and does not get."""
        ...

    async def until_started(self, directory: Path, *, wrapper: ProcessIdentity) -> None:
        """Return when the container's command runs, or the wrapper has ended."""
        ...

    def start_failure(self, instance: Instance, directory: Path) -> str:
        """Why the command of an instance that has ended never ran; empty if it did. Reads a file at most."""
        ...

    def command(
        self, instance: Instance, argv: Sequence[str], console: Console | None, directory: Path
    ) -> tuple[str, ...]:
        """What the wrapper has to run for ``argv`` to run beside the container. Reads a file at most."""
        ...

    def command_failure(self, exit_code: int, said: bytes) -> str:
        """Why a command never ran, judging by how it ended and what its standard error ends with; empty if it did."""
        ...

    async def kill(self, instance: Instance, record: ProcessRecord) -> None:
        """End the container now."""
        ...

    async def clear(self, instance: Instance, directory: Path) -> None:
        """Have nothing left running of an instance whose wrapper has ended, in whatever way."""
        ...

    def ending(self, instance: Instance, directory: Path) -> Ending:
        """Of an instance that has ended and was cleared. Reads files."""
        ...


class Unconfined:
    """The command itself, on the host: for `Confinement`.

    Args:
        home: what ``HOME`` is in containers.
    """

    name = "process"

    def __init__(self, *, home: str) -> None:
        self._home = home

    def launch(self, spec: ContainerSpec, container: ContainerId, directory: Path) -> Launch:
        check_paths(spec)
        return Launch(
            spec.argv, spec.working_dir or "/", container_environment(spec, home=self._home, directory=directory)
        )

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
