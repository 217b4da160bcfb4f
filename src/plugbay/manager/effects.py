"""The points between which a crash is told apart; logged at debug level when they are passed."""

from __future__ import annotations

import logging
from enum import Enum

logger = logging.getLogger(__name__)


class Effect(Enum):
    """What is about to happen, or has happened. Intents are only for plugins that want Deallocate."""

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


def passed(effect: Effect) -> None:
    """Say so in the log; tests kill the process there."""
    logger.debug("effect: %s", effect.value)
