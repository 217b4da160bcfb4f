"""Paths of the recorded machine, and where they are here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tests.replay.recording import KUBELET_ROOT, Json

_CDI: Final = "recorded.json"
_WORK: Final = "$WORK"


class Places:
    """
    Attributes:
        kubelet: our node's root, which stands for the kubelet's.
        cdi: directory of CDI specs.
    """

    def __init__(self, root: Path, *, cdi: Path | None = None) -> None:
        self.kubelet = root / "k"
        self.cdi = cdi or root / "cdi"
        self._work = root / "work"

    def furnish(self, cdi_spec: Json | None) -> None:
        """Make the host files that plugins give to containers."""
        if cdi_spec is not None:
            self.cdi.mkdir(exist_ok=True)
            (self.cdi / _CDI).write_text(json.dumps(cdi_spec).replace(_WORK, str(self._work)))
        for folder in ("drv", "drv2"):
            (self._work / folder).mkdir(parents=True)
        (self._work / "afile").write_text("a file\n")

    def clear(self) -> None:
        """Leave no CDI spec in an engine's own directory."""
        (self.cdi / _CDI).unlink(missing_ok=True)

    def here(self, path: str) -> Path:
        """Where a path of the recorded machine is; others than the kubelet's and the plugin's are the same."""
        for start, place in ((KUBELET_ROOT, self.kubelet), (_WORK, self._work)):
            if path.startswith(f"{start}/"):
                return place / path.removeprefix(f"{start}/")
        return Path(path)

    def recorded(self, path: str) -> str:
        return path.replace(str(self._work), _WORK)
