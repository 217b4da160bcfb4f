"""The log of what is found on a node."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from plugbay.plugins.nvidia.serving.sight import Sight

logger = logging.getLogger(__name__)


class NodeLog:
    """Tells each sentence once, however many looks find it, until what was told is forgotten."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def tell(self, sentence: str) -> None:
        """Tell of an error."""
        self._tell(sentence, logging.ERROR)

    def warn(self, sentence: str) -> None:
        self._tell(sentence, logging.WARNING)

    def forget(self) -> None:
        """Tell everything anew."""
        self._told.clear()

    def tell_of(self, sight: Sight, *, was_in_trouble: bool, warnings: Iterable[str]) -> None:
        """Tell of what keeps devices from being offered as they should be.

        Args:
            was_in_trouble: whether the driver could not be asked at the look before.
            warnings: beside those of ``sight``.
        """
        for each in (*warnings, *sight.node.warnings, *filter(None, [sight.choice.warning])):
            self.warn(each)
        for each in sight.without_nodes.values():
            self.tell(f"a device is unhealthy: {each}")
        for problem in sight.node.problems:
            if problem.gpu is None or sight.places.get(problem.gpu) not in sight.lost:  # those are offered, unhealthy
                self.tell(problem.sentence())
        if sight.trouble is not None:
            self.tell(f"{sight.trouble}; until then no device is given to a container")
        elif was_in_trouble:
            self.forget()

    def _tell(self, sentence: str, level: int) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            logger.log(level, "%s", sentence)
