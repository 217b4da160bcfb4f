"""The points between which a crash is told apart; logged at debug level when they are passed."""

from __future__ import annotations

import logging
from enum import Enum

logger = logging.getLogger(__name__)


class Effect(Enum):
    """What is about to happen, or has happened."""

    ALLOCATING = "before Allocate"
    ALLOCATED = "after Allocate"
    COMMITTING = "before commit"
    COMMITTED = "after commit"
    ANSWERING = "before answer"
    RELEASING = "before release"
    RELEASED = "after release"


def passed(effect: Effect) -> None:
    """Say so in the log; tests kill the process there."""
    logger.debug("effect: %s", effect.value)
