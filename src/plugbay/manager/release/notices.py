"""Failed PostStopContainer and Deallocate calls: a log line, and a notice from which an event on the pod is made."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Final

from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.releases import Operation, OperationKind
from plugbay.ops.changes import Inbox
from plugbay.values import dataclass

logger = logging.getLogger(__name__)

MAX_NOTICES: Final = 1000
"""Notices kept for a reader that does not come; the oldest are forgotten."""


@dataclass(frozen=True, slots=True)
class ReleaseNotice:
    """A call failed.

    Attributes:
        container: empty when the call is about the whole pod.
    """

    pod: PodUid
    container: ContainerName
    kind: OperationKind
    message: str


class ReleaseNotices:
    """The newest notices, for one reader."""

    def __init__(self) -> None:
        self._unseen = Inbox[ReleaseNotice](MAX_NOTICES)

    def failed(self, operation: Operation, problem: str) -> None:
        """An attempt failed, or the operation was given up."""
        message = f"{operation.kind.value} of {operation.resource} for {', '.join(operation.devices)}: {problem}"
        logger.warning("pod %s, container %s: %s", operation.pod, operation.container or "all", message)
        self.put(ReleaseNotice(operation.pod, operation.container, operation.kind, message))

    def put(self, notice: ReleaseNotice) -> None:
        self._unseen.put([notice])

    async def __aiter__(self) -> AsyncIterator[ReleaseNotice]:
        async for notices in self._unseen:
            for notice in notices:
                yield notice
