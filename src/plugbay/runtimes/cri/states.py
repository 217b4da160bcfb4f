"""The states of containers that an engine tells, in the words of the port. Pure."""

from __future__ import annotations

import signal
from typing import Final, assert_never

from plugbay.errors import InstanceUnreadable
from plugbay.model.cri import ContainerPhase, ContainerStatus, ListedContainer
from plugbay.model.ids import ContainerName, PodUid
from plugbay.runtimes.cri.config import CONTAINER_NAME, POD_UID
from plugbay.runtimes.port import ContainerId, ContainerState, RunState

_LOST: Final = "ContainerStatusUnknown"
_KILLED: Final = (128 + signal.SIGKILL, "Error")


def is_named(container: ListedContainer) -> bool:
    """Whether a container's labels name its pod and container, as in all containers that we make."""
    return POD_UID in container.labels and CONTAINER_NAME in container.labels


def never_ran(status: ContainerStatus) -> bool:
    """Whether its start failed unseen: the client of the engine was gone, which may be the reason for the failure.

    Engines say that in many ways (``context canceled``, ``signal: killed``); a start that fails for another reason
    fails again.
    """
    return status.phase is ContainerPhase.EXITED and status.started_at is None


def may_be_explained(status: ContainerStatus) -> bool:
    """Whether a container was killed, and the engine may yet learn that its memory ran out.

    containerd is told of that by an event of its own, which may come after the one of the end, and says ``Error`` in
    between. A kubelet asks again each second.
    """
    return status.phase is ContainerPhase.EXITED and (status.exit_code, status.reason) == _KILLED


def container_state(status: ContainerStatus) -> ContainerState:
    """The state that ``status`` tells of.

    Raises:
        InstanceUnreadable: its labels name no pod, so it may belong to another program.
    """
    if POD_UID not in status.labels or CONTAINER_NAME not in status.labels:
        raise InstanceUnreadable(status.id, "the engine does not say to which pod the container belongs")
    run_state = _run_state(status.phase)
    return ContainerState(
        id=ContainerId(status.id),
        pod_uid=PodUid(status.labels[POD_UID]),
        name=ContainerName(status.labels[CONTAINER_NAME]),
        attempt=status.attempt,
        state=run_state,
        pid=status.pid,
        started_at=status.started_at or status.created_at,
        finished_at=status.finished_at,
        exit_code=status.exit_code if run_state is RunState.EXITED else None,
        reason=_LOST if run_state is RunState.LOST else status.reason,
        message=status.message,
        image_id=status.image_ref,
    )


def _run_state(phase: ContainerPhase) -> RunState:
    match phase:
        case ContainerPhase.RUNNING:
            return RunState.RUNNING
        case ContainerPhase.EXITED:
            return RunState.EXITED
        case ContainerPhase.CREATED | ContainerPhase.UNKNOWN:
            return RunState.LOST
        case _:
            assert_never(phase)
