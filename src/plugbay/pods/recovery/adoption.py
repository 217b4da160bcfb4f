"""Adoption: a restarted node brings its records in line with the instances that the runtime still has. Pure.

The runtime knows better than the record how an instance ended; the record knows which instances should be there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from plugbay.model.ids import ContainerName
from plugbay.model.pods import Container
from plugbay.pods.record import (
    ContainerRecord,
    Deletion,
    PodRecord,
    Running,
    Startup,
    Terminated,
    lost,
    step_after_hook,
    terminated,
)
from plugbay.runtimes.port import ContainerState, RunState


def adopt(record: PodRecord, instances: Iterable[ContainerState], *, now: datetime) -> PodRecord:
    """``record`` with the true states of the pod's ``instances``, and with times that the clock allows."""
    newest: dict[ContainerName, ContainerState] = {}
    for instance in instances:
        known = newest.get(instance.name)
        if known is None or known.attempt < instance.attempt:
            newest[instance.name] = instance
    for container in record.pod.spec.all_containers:
        adopted = _adopt(record.containers[container.name], newest.get(container.name), container, now=now)
        record = record.with_container(container.name, adopted)
    return replace(record, deletion=record.deletion and _within_its_grace(record.deletion, now=now))


def _within_its_grace(deletion: Deletion, *, now: datetime) -> Deletion:
    """``deletion`` with a deadline that did not grow because the clock was set back since."""
    return min(deletion, Deletion.at(now, grace_s=deletion.grace_s), key=lambda each: each.deadline)


def _adopt(
    container: ContainerRecord, instance: ContainerState | None, spec: Container, *, now: datetime
) -> ContainerRecord:
    if instance is None or instance.attempt < container.attempt:
        if isinstance(container.state, Running):
            return container.terminated(lost(container.state, now=now), attempt=container.attempt)
        return container
    if instance.state is RunState.UNKNOWN and instance.id in container.instances():
        return container  # what is recorded may still hold; waiting for it and stopping it find out
    if instance.state in (RunState.RUNNING, RunState.UNKNOWN):
        return container.running(_running(container, instance, spec), attempt=instance.attempt)
    if isinstance(container.state, Terminated) and instance.attempt == container.attempt:
        return container
    if container.last is not None and container.last.id == instance.id:
        return container  # it waits to be started again, and this end is accounted for
    return container.terminated(terminated(instance, now=now), attempt=instance.attempt)


def _running(container: ContainerRecord, instance: ContainerState, spec: Container) -> Running:
    """``instance``, as ready as its probes found it before; a hook that ran then is not run again.

    Its image is taken to be the one that the pod names, unless it is recorded: an earlier version recorded none, and
    let it not be changed, and a node that is killed just after the start records nothing.

    Source: kubelet 1.36 ``prober_manager.go``: since 1.35 a container stays started and ready across a restart.
    """
    state = container.state
    known = state if isinstance(state, Running) and state.id == instance.id else None
    image = spec.image if known is None or known.image is None else known.image
    if known is not None and known.startup is not Startup.POST_START:
        return replace(known, started_at=instance.started_at, image_id=instance.image_id, image=image)
    return Running(instance.id, instance.started_at, step_after_hook(spec), instance.image_id, image=image)
