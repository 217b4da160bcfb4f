"""Termination messages: where a container's last words are read from."""

from __future__ import annotations

from enum import Enum
from typing import Final

from plugbay.values import dataclass

DEFAULT_PATH: Final = "/dev/termination-log"


class MessagePolicy(Enum):
    """The source of a termination message."""

    FILE = "File"
    FALLBACK_TO_LOGS = "FallbackToLogsOnError"
    """The end of the log, if a container failed and did not write a message."""


@dataclass(frozen=True, slots=True)
class TerminationMessage:
    """``path`` is a file in the container; the defaults are the API server's."""

    path: str = DEFAULT_PATH
    policy: MessagePolicy = MessagePolicy.FILE

    @classmethod
    def of(cls, path: str, policy: MessagePolicy | None) -> TerminationMessage:
        """Read the settings of a manifest; missing ones are the defaults."""
        return cls(path or DEFAULT_PATH, policy or MessagePolicy.FILE)


DEFAULT_MESSAGE: Final = TerminationMessage()
