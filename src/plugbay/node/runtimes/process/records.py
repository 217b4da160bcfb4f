"""What lies in an instance's directory, and what it says about the instance.

Compatibility: a later plugbay adopts containers that an earlier one started, so fields are added with a default,
never renamed or removed; unknown ones are ignored. ``process.json`` and ``exit.json`` are written by ``wrapper.py``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from plugbay.errors import quote
from plugbay.kernel.processes import ProcessIdentity
from plugbay.node.runtimes.port import ContainerId, ContainerSpec, ContainerState, RunState

START_FAILED: Final = 128
"""Exit code of a container whose command could not be run, as with containerd."""


class SpecRecord(msgspec.Struct, frozen=True):
    """``spec.json``: what was asked for, and the environment and directory it came to."""

    spec: ContainerSpec
    env: Mapping[str, str]
    working_dir: str
    created_at: datetime


class ProcessRecord(msgspec.Struct, frozen=True):
    """``process.json``: who runs it. ``wrapper`` is the parent of ``process``, which leads the session."""

    boot_id: str
    wrapper: ProcessIdentity
    process: ProcessIdentity
    started_at: float


class ExitRecord(msgspec.Struct, frozen=True):
    """``exit.json``: how it ended.

    Attributes:
        exit_code: 128 + ``signal`` when a signal ended it.
        failed_step: when the command could not be run: ``setsid``, ``log``, ``chdir`` or ``exec``.
        errno: what that step failed with.
    """

    finished_at: float
    exit_code: int
    signal: int | None = None
    failed_step: str = ""
    errno: int = 0


@dataclass(frozen=True, slots=True)
class Instance:
    """All records of one container instance, as read at one moment."""

    id: ContainerId
    spec: SpecRecord
    process: ProcessRecord | None
    exit: ExitRecord | None

    @property
    def started_at(self) -> datetime:
        return self.spec.created_at if self.process is None else _time(self.process.started_at)

    def running(self) -> ContainerState:
        return self._state(RunState.RUNNING, pid=None if self.process is None else self.process.process.pid)

    def lost(self) -> ContainerState:
        message = (
            "The node stopped while it started the container; its command never ran"
            if self.process is None
            else "The container's process is gone and nobody saw how it ended"
        )
        return self._state(RunState.LOST, reason="ContainerStatusUnknown", message=message)

    def exited(
        self, ended: ExitRecord, *, start_failure: str = "", reason: str = "", message: str = ""
    ) -> ContainerState:
        """The state of an instance that has ended.

        Args:
            start_failure: why its command never ran.
            reason: empty where the exit code tells.
            message: its own last words.
        """
        reason = "StartError" if start_failure else reason or ("Completed" if ended.exit_code == 0 else "Error")
        return self._state(
            RunState.EXITED,
            finished_at=_time(ended.finished_at),
            exit_code=START_FAILED if start_failure else ended.exit_code,
            reason=reason,
            message=start_failure or message,
        )

    def _state(
        self,
        state: RunState,
        *,
        pid: int | None = None,
        finished_at: datetime | None = None,
        exit_code: int | None = None,
        reason: str = "",
        message: str = "",
    ) -> ContainerState:
        spec = self.spec.spec
        return ContainerState(
            id=self.id,
            pod_uid=spec.pod_uid,
            name=spec.name,
            attempt=spec.attempt,
            state=state,
            pid=pid,
            started_at=self.started_at,
            finished_at=finished_at,
            exit_code=exit_code,
            reason=reason,
            message=message,
        )


def start_failure(record: SpecRecord, ended: ExitRecord) -> str:
    """Why the command could not be run, as runc and the Go library say it."""
    return failure_text(
        ended.failed_step, OSError(ended.errno, os.strerror(ended.errno)), record.spec.argv[0], record.working_dir
    )


def failure_text(step: str, error: OSError, program: str, working_dir: str) -> str:
    reason = (error.strerror or str(error)).lower()
    match step:
        case "exec" if isinstance(error, FileNotFoundError) and "/" not in program:
            return f"exec: {quote(program)}: executable file not found in $PATH"
        case "exec":
            return f"exec: {quote(program)}: {reason}"
        case "chdir":
            return f"chdir to cwd ({quote(working_dir)}) failed: {reason}"
        case _:
            return f"{step}: {reason}"


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
