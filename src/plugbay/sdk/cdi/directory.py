"""The directory of CDI specs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

CDI_DIRECTORY: Final = Path("/var/run/cdi")
"""Engines look for generated specs here, unless they are told otherwise."""
