"""The host of pods: everything below the node that their containers need."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import TypeVar

from plugbay.ops.tasks import uninterrupted
from plugbay.pods.running.configs import ConfigSource
from plugbay.pods.running.volumes import Volumes
from plugbay.runtimes.mounts import MissingMount
from plugbay.runtimes.port import ContainerRuntime
from plugbay.runtimes.sandboxes import HostSandboxes, Sandboxes
from plugbay.values import dataclass

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class PodHost:
    """The parts of the machine that pods are run with.

    Attributes:
        sandboxes: the runtime's part that makes sandboxes.
        configs: the objects that pods refer to.
        capacity: of the node; cpu in thousandths.
        tasks: lives longer than every pod's worker.
    """

    runtime: ContainerRuntime
    volumes: Volumes
    configs: ConfigSource
    capacity: Mapping[str, int]
    tasks: asyncio.TaskGroup
    sandboxes: Sandboxes = field(default_factory=HostSandboxes)
    on_missing_mount: MissingMount = MissingMount.MAKE

    async def as_one_step(self, work: Callable[[], Awaitable[_Result]]) -> _Result:
        """The result of ``work``, which ends also when the caller is cancelled.

        Half a step would leave something, such as a mount or a process, that nothing removes.
        """
        return await uninterrupted(self.tasks, work)
