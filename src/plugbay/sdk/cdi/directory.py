"""Where CDI specs are, for everything that looks for files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

CDI_DIRECTORY: Final = Path("/var/run/cdi")
"""Where engines look for generated specs, unless they are told otherwise."""
