"""Paths of the recorded machine, and where they are here."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.replay.recording import KUBELET_ROOT

_WORK: Final = "$WORK"


class Places:
    """
    Attributes:
        kubelet: our node's root, which stands for the kubelet's.
    """

    def __init__(self, root: Path) -> None:
        self.kubelet = root / "k"
        self._work = root / "work"

    def furnish(self) -> None:
        """Make the host files that plugins give to containers."""
        for folder in ("drv", "drv2"):
            (self._work / folder).mkdir(parents=True)
        (self._work / "afile").write_text("a file\n")

    def here(self, path: str) -> Path:
        """Where a path of the recorded machine is; others than the kubelet's and the plugin's are the same."""
        for start, place in ((KUBELET_ROOT, self.kubelet), (_WORK, self._work)):
            if path.startswith(f"{start}/"):
                return place / path.removeprefix(f"{start}/")
        return Path(path)

    def recorded(self, path: str) -> str:
        return path.replace(str(self._work), _WORK)
