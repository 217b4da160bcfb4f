"""Crash points: the steps of an allocation or a release at which tests kill the process."""

from __future__ import annotations

import logging
from enum import Enum

logger = logging.getLogger(__name__)


class CrashPoint(Enum):
    """A step that is about to be taken, or has been taken. Intents are only for plugins that want Deallocate."""

    INTENDING = "before intent"
    INTENDED = "after intent"
    ALLOCATING = "before Allocate"
    ALLOCATED = "after Allocate"
    COMMITTING = "before commit"
    COMMITTED = "after commit"
    ANSWERING = "before answer"
    RELEASING = "before release"
    RELEASED = "after release"
    QUEUING = "before queueing"
    QUEUED = "after queueing"
    """A PostStopContainer, or a Deallocate for a refused pod, will be called whatever happens."""
    CALLING_POST_STOP = "before PostStopContainer"
    CALLED_POST_STOP = "after PostStopContainer"
    CALLING_DEALLOCATE = "before Deallocate"
    CALLED_DEALLOCATE = "after Deallocate"
    SETTLING = "before settling"
    SETTLED = "after settling"


def passed(point: CrashPoint) -> None:
    """Log that the process has come this far; a test may kill it here."""
    logger.debug("effect: %s", point.value)
