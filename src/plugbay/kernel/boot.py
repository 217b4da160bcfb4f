"""Which boot of the machine this is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """A text that no other boot of any machine has; containers see that of their machine. Source: ``random(4)``."""
    return _BOOT_ID.read_text().strip()
