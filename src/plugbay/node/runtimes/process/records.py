"""What lies in an instance's directory, and what it says about the instance.

Compatibility: a later plugbay adopts containers that an earlier one started, so fields are added with a default,
never renamed or removed; unknown ones are ignored. ``process.json`` and ``exit.json`` are written by ``wrapper.py``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote as escape
from urllib.parse import unquote

import msgspec

from plugbay.errors import quote
from plugbay.kernel.processes import ProcessIdentity
from plugbay.model.edits import NO_EDITS
from plugbay.model.ids import ContainerName, PodUid
from plugbay.node.runtimes.port import ContainerId, ContainerSpec, ContainerState, RunState

START_FAILED: Final = 128
"""Exit code of a container whose command could not be run, as with containerd."""
RESERVED: Final = "exit.reserved"
"""Becomes ``exit.json``; its room is there from the start, as the disk may be full at the end."""
_MARKER: Final = re.compile(r"ran_([^_]+)_(\d+)_(\d+)_(\d+)_(\d+)", re.ASCII)
_ID: Final = re.compile(r"([^_]+)_([^_]+)_(\d+)", re.ASCII)


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


def container_id(spec: ContainerSpec) -> ContainerId:
    """One file name for each pod UID, container name and attempt, whatever characters they have."""
    return ContainerId(f"{_escape(spec.pod_uid)}_{_escape(spec.name)}_{spec.attempt}")


def is_container_id(name: str) -> bool:
    """Whether a file name is one that `container_id` gives."""
    return _ID.fullmatch(name) is not None


def stand_in(container: ContainerId, *, created_at: datetime) -> SpecRecord | None:
    """For a record of which only the name is left: whose instance it is. None if the name is not one of ours."""
    if (found := _ID.fullmatch(container)) is None:
        return None
    spec = ContainerSpec(
        pod_uid=PodUid(unquote(found[1])),
        namespace="",
        pod="",
        name=ContainerName(unquote(found[2])),
        attempt=int(found[3]),
        image="",
        argv=("?",),
        working_dir=None,
        env={},
        mounts=(),
        edits=NO_EDITS,
    )
    return SpecRecord(spec, env={}, working_dir="/", created_at=created_at)


def in_doubt(container: ContainerId, *, now: datetime) -> ContainerState | None:
    """For an instance of which nothing can be read but its name; None if that is not one of ours."""
    spec = stand_in(container, created_at=now)
    return None if spec is None else Instance(container, spec, None, None, is_damaged=True).in_doubt()


def parse_marker(name: str, *, started_at: float) -> ProcessRecord | None:
    """What the name of a wrapper's empty file says; None for any other file's."""
    if (found := _MARKER.fullmatch(name)) is None:
        return None
    wrapper = ProcessIdentity(int(found[2]), start_ticks=int(found[3]))
    return ProcessRecord(found[1], wrapper, ProcessIdentity(int(found[4]), start_ticks=int(found[5])), started_at)


def _escape(text: str) -> str:
    return escape(text, safe="").replace("_", "%5F").replace(".", "%2E")


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
