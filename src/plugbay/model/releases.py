"""What a plugin is told when devices come back: which operation it is, and why.

Source: spec 12.4.
"""

from __future__ import annotations

from enum import Enum
from typing import NewType

OperationId = NewType("OperationId", str)
"""Names one PostStopContainer or Deallocate: the same in every repeat, never used for another one. Empty when a
manager gave none."""


class ReleaseReason(Enum):
    """Why devices are deallocated."""

    UNSPECIFIED = "unspecified"
    POD_ENDED = "pod ended"
    ADMISSION_FAILED = "admission failed"
    """They were allocated, perhaps, for a pod that was refused after all."""
    ORPHANED = "orphaned"
    """The pod went away while no manager ran."""
