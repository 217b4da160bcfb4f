"""One container instance as its records tell of it, and the states that follow from them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from plugbay.errors import InstanceUnreadable, quote
from plugbay.runtimes.port import ContainerId, ContainerState, RunState
from plugbay.runtimes.supervised.records import ExitRecord, ProcessRecord, SpecRecord, stand_in
from plugbay.values import dataclass

START_FAILED: Final = 128
"""Exit code of a container whose command could not be run, as with containerd."""


@dataclass(frozen=True, slots=True)
class Instance:
    """All records of one container instance, as read at one moment.

    Attributes:
        is_damaged: whether a record is missing or makes no sense; ``spec`` may then be a `stand_in`.
    """

    id: ContainerId
    spec: SpecRecord
    process: ProcessRecord | None
    exit: ExitRecord | None
    is_damaged: bool = False

    @property
    def started_at(self) -> datetime:
        return self.spec.created_at if self.process is None else _time(self.process.started_at)

    def running(self) -> ContainerState:
        return self._state(RunState.RUNNING, pid=None if self.process is None else self.process.process.pid)

    def in_doubt(self) -> ContainerState:
        return self._state(RunState.UNKNOWN)

    def lost(self) -> ContainerState:
        message = (
            "The node stopped while it started the container; its command never ran"
            if self.process is None and not self.is_damaged
            else "The container's process is gone, and how it ended is not known"
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
        asked = self.spec.asked
        return ContainerState(
            id=self.id,
            pod_uid=asked.pod_uid,
            name=asked.name,
            attempt=asked.attempt,
            state=state,
            pid=pid,
            started_at=self.started_at,
            finished_at=finished_at,
            exit_code=exit_code,
            reason=reason,
            message=message,
        )


def in_doubt(container: ContainerId, *, now: datetime) -> ContainerState | None:
    """The state of an instance if only its name can be read; None if the name is not one of ours."""
    spec = stand_in(container, created_at=now)
    return None if spec is None else Instance(container, spec, None, None, is_damaged=True).in_doubt()


@contextmanager
def doubts(container: ContainerId) -> Iterator[None]:
    """Turn refusals of the system into doubts: they say nothing of the container, which may run."""
    try:
        yield
    except OSError as error:
        raise InstanceUnreadable(container, f"{error.strerror or error}") from error


def start_failure(record: SpecRecord, ended: ExitRecord) -> str:
    """The reason why the command could not be run, as runc and the Go library say it."""
    return failure_text(
        ended.failed_step, OSError(ended.errno, os.strerror(ended.errno)), record.asked.argv[0], record.working_dir
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
