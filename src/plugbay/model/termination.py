"""What a container leaves to say of its end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

DEFAULT_PATH: Final = "/dev/termination-log"


class MessagePolicy(Enum):
    """Where a termination message comes from."""

    FILE = "File"
    FALLBACK_TO_LOGS = "FallbackToLogsOnError"
    """The end of the log, where a container failed and wrote no message."""


@dataclass(frozen=True, slots=True)
class TerminationMessage:
    """``path`` is that of a file in the container; the defaults are the API server's."""

    path: str = DEFAULT_PATH
    policy: MessagePolicy = MessagePolicy.FILE

    @classmethod
    def of(cls, path: str, policy: MessagePolicy | None) -> TerminationMessage:
        """What a manifest says; where it says nothing, the usual."""
        return cls(path or DEFAULT_PATH, policy or MessagePolicy.FILE)


DEFAULT_MESSAGE: Final = TerminationMessage()
