"""The bytes that a server keeps for its clients' calls: bounded for each client, and for all together.

Flow control bounds what is on its way only: a message that is longer than a window is gathered here, and a client may
have a hundred of them under way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MOST_OF_PEER: Final = 32 * 1024 * 1024
MOST_OF_ALL: Final = 128 * 1024 * 1024
CALL_BYTES: Final = 16 * 1024
"""A call takes so much besides its request: a task and what it runs."""


class KeptOfAll:
    """Attributes: ``count``: the bytes that are kept for all clients of a server."""

    def __init__(self) -> None:
        self.count = 0


class KeptOfPeer:
    """The bytes that are kept for one client, as a part of all.

    Attributes:
        count: the bytes.

    Args:
        relieve: hangs up on the client for which most is kept, and disowns what that is.
    """

    def __init__(self, of_all: KeptOfAll, relieve: Callable[[], None]) -> None:
        self.count = 0
        self._of_all = of_all
        self._relieve = relieve

    def add(self, count: int) -> bool:
        """Take note that ``count`` more are kept; return whether they may be."""
        self.count += count
        self._of_all.count += count
        if self._of_all.count > MOST_OF_ALL:
            self._relieve()
        return self.count <= MOST_OF_PEER

    def remove(self, count: int) -> None:
        """Take note that ``count`` of them are kept no more; nothing if they were disowned."""
        count = min(count, self.count)
        self.count -= count
        self._of_all.count -= count

    def disown(self) -> None:
        """Count nothing more: the client is gone, and its calls end."""
        self.remove(self.count)
