"""What a restarted node makes of the instances a runtime still has: pure.

The runtime knows better than the record what became of an instance; the record knows what should be there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from plugbay.model.ids import ContainerName
from plugbay.node.records import ContainerRecord, Deletion, PodRecord, Running, Terminated
from plugbay.node.runtimes.port import ContainerState, RunState

KILLED_EXIT_CODE: Final = 137
_LOST_REASON: Final = "ContainerStatusUnknown"
_LOST_MESSAGE: Final = "The container could not be located when the pod was terminated"


def terminated(state: ContainerState, *, now: datetime) -> Terminated:
    """The end of an instance that runs no more; ``now`` stands in where nobody saw when."""
    code = state.exit_code if state.exit_code is not None else KILLED_EXIT_CODE
    return Terminated(
        state.id,
        code,
        state.reason or ("Completed" if code == 0 else "Error"),
        state.finished_at or now,
        state.started_at,
        state.message or (_LOST_MESSAGE if state.state is RunState.LOST else ""),
        state.image_id,
    )


def lost(running: Running, *, now: datetime) -> Terminated:
    """The end of an instance the runtime does not know any more."""
    return Terminated(
        running.id, KILLED_EXIT_CODE, _LOST_REASON, now, running.started_at, _LOST_MESSAGE, running.image_id
    )


def adopt(record: PodRecord, instances: Iterable[ContainerState], *, now: datetime) -> PodRecord:
    """``record`` with the states that ``instances`` of its pod are really in, and with times that can be."""
    newest: dict[ContainerName, ContainerState] = {}
    for instance in instances:
        known = newest.get(instance.name)
        if known is None or known.attempt < instance.attempt:
            newest[instance.name] = instance
    for name, container in record.containers.items():
        record = record.with_container(name, _adopt(container, newest.get(name), now=now))
    return replace(record, deletion=record.deletion and _within_its_grace(record.deletion, now=now))


def _within_its_grace(deletion: Deletion, *, now: datetime) -> Deletion:
    """The clock may have been set back since: a grace period does not grow by that."""
    return min(deletion, Deletion.at(now, grace_s=deletion.grace_s), key=lambda each: each.deadline)


def _adopt(container: ContainerRecord, instance: ContainerState | None, *, now: datetime) -> ContainerRecord:
    if instance is None or instance.attempt < container.attempt:
        if isinstance(container.state, Running):
            return container.terminated(lost(container.state, now=now), attempt=container.attempt)
        return container
    if instance.state is RunState.UNKNOWN and instance.id in container.instances():
        return container  # what is recorded may still hold; waiting for it and stopping it find out
    if instance.state in (RunState.RUNNING, RunState.UNKNOWN):
        running = Running(instance.id, instance.started_at, image_id=instance.image_id)
        return container.running(running, attempt=instance.attempt)
    if isinstance(container.state, Terminated) and instance.attempt == container.attempt:
        return container
    if container.last is not None and container.last.id == instance.id:
        return container  # it waits to be started again, and this end is accounted for
    return container.terminated(terminated(instance, now=now), attempt=instance.attempt)
