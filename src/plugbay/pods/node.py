"""The node itself: its name and machine, whether it takes new pods, and whether its runtime answers."""

from __future__ import annotations

import logging
import os
import platform
import shutil
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from plugbay.kernel.numa import read_numa_nodes
from plugbay.model.nodes import NO_INPUT, NodeInput, well_known_labels
from plugbay.model.topology import ONE_NODE, NumaTopology, pretended_nodes
from plugbay.ops.changes import Changes
from plugbay.ops.clock import Clock
from plugbay.pods.events import ObjectRef
from plugbay.pods.lifecycle import PodStage
from plugbay.pods.store.database import PodStore
from plugbay.pods.store.event_log import EventLog
from plugbay.pods.store.table import PodTable
from plugbay.values import dataclass

logger = logging.getLogger(__name__)

MAX_PODS: Final = 110
"""A kubelet's default."""


@dataclass(frozen=True, slots=True)
class MachineIds:
    """The identities of a machine; empty where it does not tell.

    Attributes:
        machine: of its installation.
        system: of its hardware; readable by root only.
        boot: of the time since it was booted.
    """

    machine: str = ""
    system: str = ""
    boot: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine that a node runs on, as the node describes it.

    Attributes:
        capacity: cpu in thousandths, memory and ephemeral-storage in bytes, pods.
    """

    capacity: Mapping[str, int]
    hostname: str
    kernel: str
    architecture: str
    os_image: str
    numa: NumaTopology = ONE_NODE
    ids: MachineIds = MachineIds()


@dataclass(frozen=True, slots=True)
class RuntimeHealth:
    """Whether the node's runtime can be asked.

    Attributes:
        problem: the reason why the runtime cannot be asked; empty while it can.
        since: the moment of the last change; None while there was none.
    """

    problem: str = ""
    since: datetime | None = None


class Node:
    """The one node, as its status tells it.

    While it is cordoned the scheduler binds no pod to it; pods that name the node come nevertheless.

    Attributes:
        settings: what clients have written.
        labels: all of them, those that the node gives itself included.
        changes: notified after each change of the node as a v1 object, changes of its resources included.
    """

    def __init__(
        self, name: str, machine: Machine, store: PodStore, clock: Clock, *, settings: NodeInput = NO_INPUT
    ) -> None:
        self.name = name
        self.machine = machine
        self.settings = settings
        self.labels = {**settings.labels, **well_known_labels(name, machine.architecture)}
        self.runtime_health = RuntimeHealth()
        self.changes = Changes()
        self._store = store
        self._clock = clock

    def write(self, settings: NodeInput) -> None:
        """Take what a client wrote; harmless if nothing changes. It is durable after the next flush of the store."""
        if settings == self.settings:
            return
        self.settings = settings
        self.labels = {**settings.labels, **well_known_labels(self.name, self.machine.architecture)}
        self._store.save_node(settings)
        self.changes.notify()

    def cordon(self) -> None:
        """Take no new pods; harmless twice."""
        if self.settings.cordoned_since is None:
            self.write(replace(self.settings, cordoned_since=self._clock.now()))

    def uncordon(self) -> None:
        """Take new pods again; harmless twice."""
        self.write(replace(self.settings, cordoned_since=None))

    def runtime_changed(self, problem: str) -> None:
        """Take note that the runtime cannot be asked, or can be asked again: then ``problem`` is empty."""
        self.runtime_health = RuntimeHealth(problem, self._clock.now())
        self.changes.notify()


def registered(name: str, store: PodStore, stored: NodeInput | None, wanted: NodeInput, *, now: datetime) -> NodeInput:
    """The node as clients left it; at the first start on a root, as it is ``wanted``, which is kept."""
    if stored is not None and wanted not in (NO_INPUT, replace(stored, registered_at=None)):
        problem = "node labels and taints of the command line count when a node registers, and %s has: use kubectl"
        logger.warning(problem, name)
    if stored is not None and stored.registered_at is not None:
        return stored
    kept = replace(wanted if stored is None else stored, registered_at=now)
    store.save_node(kept)
    return kept


async def follow_absences(
    node: Node, about: ObjectRef, absences: AsyncIterator[str], *, pods: PodTable, events: EventLog
) -> None:
    """Keep the runtime's health in ``node`` and in the pods' records; each change is an event ``about`` the node.

    Pods keep what they hold: a runtime that does not answer says nothing about what runs.

    Args:
        absences: the runtime's problem each time it changes; empty when there is none any more.
    """
    async for problem in absences:
        node.runtime_changed(problem)
        if problem:
            logger.warning("container runtime is down: %s", problem)
            events.warning(about, "ContainerRuntimeDown", f"container runtime is down: {problem}")
        else:
            events.normal(about, "ContainerRuntimeUp", "container runtime answers again")
        for record in list(pods):
            if record.stage in (PodStage.ACTIVE, PodStage.TERMINATING):
                pods.put(replace(record, runtime_problem=problem))


def read_machine(root: Path, *, max_pods: int = MAX_PODS, fake_numa_nodes: int | None = None) -> Machine:
    """Read what this machine has from files; ephemeral storage is the file system of ``root``.

    Args:
        fake_numa_nodes: the number of pretended nodes that replace the machine's own.
    """
    capacity = {
        "cpu": 1000 * (os.cpu_count() or 1),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "ephemeral-storage": shutil.disk_usage(root).total,
        "pods": max_pods,
    }
    numa = read_numa_nodes(Path("/sys")) if fake_numa_nodes is None else pretended_nodes(fake_numa_nodes)
    ids = MachineIds(
        machine=_line("/etc/machine-id"),
        system=_line("/sys/class/dmi/id/product_uuid"),
        boot=_line("/proc/sys/kernel/random/boot_id"),
    )
    return Machine(capacity, socket.gethostname(), platform.release(), _go_architecture(), _os_image(), numa, ids)


def _line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _go_architecture() -> str:
    machine = platform.machine()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def _os_image() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"
