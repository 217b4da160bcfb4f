"""The port to confinements, which stand between a wrapper and its container's command: nothing, or an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final, Protocol

from plugbay.kernel.processes import ProcessIdentity
from plugbay.runtimes.exec_input import Console
from plugbay.runtimes.port import ContainerId, ContainerSpec, Notice
from plugbay.runtimes.supervised.consoles import TerminalMaker
from plugbay.runtimes.supervised.instance import Instance
from plugbay.runtimes.supervised.records import ProcessRecord
from plugbay.values import dataclass

_PROC: Final = Path("/proc")
_SHOWN_PATHS: Final = 5


@dataclass(frozen=True, slots=True)
class Launch:
    """The command line of an instance's wrapper, and the content of the instance's directory for it.

    Attributes:
        files: content of files, by their path in the directory; directories are made as needed.
        links: symbolic links, by their path in the directory.
        directories: further directories, which are empty.
        open_files: empty files that every user may write, by their path in the directory.
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
    """The facts about an end besides the exit code.

    Attributes:
        reason: empty where the exit code tells.
        message: the container's termination message.
    """

    reason: str = ""
    message: str = ""


class Confinement(Protocol):
    """Starts, enters and ends containers. ``directory`` is always the instance's directory."""

    name: str
    terminal_maker: TerminalMaker

    def launch(
        self, spec: ContainerSpec, container: ContainerId, directory: Path, *, is_given_up: Callable[[], bool]
    ) -> Launch:
        """Look at what the container counts on, and say how it is run; may wait for the disk. Changes nothing.

        Args:
            is_given_up: whether the start waits for this no longer; asked before each part of what can go on for ever.

        Raises:
            ContainerStartError: it cannot be made as it is wanted, or it is given up.
        """
        ...

    def shortcomings(self, spec: ContainerSpec) -> Sequence[Notice]:
        """Notices about what the container asks for and does not get."""
        ...

    async def until_started(self, directory: Path, *, wrapper: ProcessIdentity) -> None:
        """Return when the container's command runs, or the wrapper has ended."""
        ...

    def start_failure(self, instance: Instance, directory: Path) -> str:
        """Tell why the command of an instance that has ended never ran; empty if it did. Reads a file at most."""
        ...

    def command(
        self, instance: Instance, argv: Sequence[str], console: Console | None, directory: Path
    ) -> tuple[str, ...]:
        """The command line for the wrapper that makes ``argv`` run beside the container. Reads a file at most."""
        ...

    def command_failure(self, exit_code: int, said: bytes) -> str:
        """Tell from a command's exit and its standard error why it never ran; empty if it did."""
        ...

    async def kill(self, instance: Instance, record: ProcessRecord) -> None:
        """End the container now."""
        ...

    async def clear(self, instance: Instance, directory: Path) -> None:
        """End all that still runs of an instance whose wrapper has ended, in whatever way."""
        ...

    def ending(self, instance: Instance, directory: Path) -> Ending:
        """The facts about the end of an instance that was cleared. Reads files."""
        ...
