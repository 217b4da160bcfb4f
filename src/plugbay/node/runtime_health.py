"""Whether the runtime can be asked, as the status of the node and of its pods tells it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from plugbay.node.lifecycle import Stage

if TYPE_CHECKING:
    from plugbay.node.events import ObjectRef
    from plugbay.node.parts import NodeParts

logger = logging.getLogger(__name__)


class RuntimeHealth:
    """Whether the node's runtime can be asked.

    Attributes:
        problem: why the runtime cannot be asked; empty while it can.
        since: when that last changed; None when it never did.
    """

    def __init__(self) -> None:
        self.problem = ""
        self.since: datetime | None = None


async def follow_absences(parts: NodeParts, node: ObjectRef, absences: AsyncIterator[str]) -> None:
    """Keep `NodeParts.runtime_health` and the pods' records as ``absences`` tells; each one is an event of the node.

    Pods keep what they hold: that nobody can be asked says nothing about what runs.
    """
    async for problem in absences:
        parts.runtime_health.problem = problem
        parts.runtime_health.since = parts.clock.now()
        parts.changes.notify()
        if problem:
            logger.warning("container runtime is down: %s", problem)
            parts.events.warning(node, "ContainerRuntimeDown", f"container runtime is down: {problem}")
        else:
            parts.events.normal(node, "ContainerRuntimeUp", "container runtime answers again")
        for record in list(parts.pods):
            if record.stage in (Stage.ACTIVE, Stage.TERMINATING):
                parts.pods.put(replace(record, runtime_problem=problem))
