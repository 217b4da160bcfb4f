"""The programs of the driver that MPS takes: one command at a time, with a deadline."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from plugbay.errors import GpusUnusable
from plugbay.model.ids import ResourceName
from plugbay.values import dataclass

PERCENTAGE: Final = "get_default_active_thread_percentage"
"""A question that any daemon answers."""
STARTED: Final = ".started"
READY: Final = ".ready"
MPS_ROOT: Final = Path("/mps")


@dataclass(frozen=True, slots=True)
class MpsPrograms:
    """The driver's programs.

    Attributes:
        variables: their environment, but for what is said of daemons.
        control: starts daemons, and tells them what it reads.
        smi: sets the compute mode of GPUs.
        answer_s: the seconds that a command may take.
    """

    variables: Mapping[str, str]
    control: str = "nvidia-cuda-mps-control"
    smi: str = "nvidia-smi"
    answer_s: float = 30.0


@dataclass(frozen=True, slots=True)
class MpsPlace:
    """The directories of a daemon.

    Attributes:
        root: of all daemons of the node.
    """

    root: Path
    resource: ResourceName

    @property
    def directory(self) -> Path:
        return self.root / self.resource

    @property
    def pipe(self) -> Path:
        return self.directory / "pipe"

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def started(self) -> Path:
        """The file that is there while the daemon answers."""
        return self.directory / STARTED

    def environ(self, programs: MpsPrograms) -> Mapping[str, str]:
        """The environment of the daemon, and of what talks to it."""
        return {
            **programs.variables,
            "CUDA_MPS_PIPE_DIRECTORY": str(self.pipe),
            "CUDA_MPS_LOG_DIRECTORY": str(self.log),
        }


async def tell_daemon(programs: MpsPrograms, place: MpsPlace, command: str) -> str:
    """Give a running daemon a command; returns its answer.

    Raises:
        GpusUnusable: the program cannot be run, no daemon answers, or it does not in time.
    """
    return await run_program(programs, programs.control, environ=place.environ(programs), line=f"{command}\n")


async def run_program(
    programs: MpsPrograms, name: str, *arguments: str, environ: Mapping[str, str], line: str = ""
) -> str:
    """Run one of the driver's programs to its end; returns what it prints.

    Args:
        line: its standard input.

    Raises:
        GpusUnusable: it cannot be run, fails, or takes too long.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            name,
            *arguments,
            env=environ,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        raise GpusUnusable(f"{name} cannot be run ({error.strerror}); it comes with the NVIDIA driver") from error
    said = " ".join((Path(name).name, *arguments, line.strip())).strip()
    try:
        async with asyncio.timeout(programs.answer_s):
            output, _ = await process.communicate(line.encode())
    except TimeoutError:
        raise GpusUnusable(f"{said} did not end within {programs.answer_s:g} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    text = output.decode(errors="replace").strip()
    if process.returncode:
        raise GpusUnusable(f"{said} failed with status {process.returncode}: {text}")
    return text
