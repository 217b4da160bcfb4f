"""What an engine tells of containers, in the words of the port: pure."""

from __future__ import annotations

from typing import Final, assert_never

from plugbay.errors import InstanceUnreadable
from plugbay.model.cri import ContainerPhase, ContainerStatus, ListedContainer
from plugbay.model.ids import ContainerName, PodUid
from plugbay.node.runtimes.cri.config import CONTAINER_NAME, POD_UID
from plugbay.node.runtimes.port import ContainerId, ContainerState, RunState

_LOST: Final = "ContainerStatusUnknown"


def is_named(container: ListedContainer) -> bool:
    """Whether it says whose it is, as all do that we make."""
    return POD_UID in container.labels and CONTAINER_NAME in container.labels


def never_ran(status: ContainerStatus) -> bool:
    """Whether its start failed and nobody took note: whoever asked for it was gone, which may be why it failed.

    Engines say that in many ways (``context canceled``, ``signal: killed``); what fails for another reason does again.
    """
    return status.phase is ContainerPhase.EXITED and status.started_at is None


def container_state(status: ContainerStatus) -> ContainerState:
    """The state that ``status`` tells of.

    Raises:
        InstanceUnreadable: it does not say whose container it is, so it may be another's.
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
