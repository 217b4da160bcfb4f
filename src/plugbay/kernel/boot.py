"""The identity of this boot of the machine."""

from __future__ import annotations

from pathlib import Path


def read_boot_id(proc_root: Path) -> str:
    """A text that no other boot of any machine has; containers see their machine's. Source: ``random(4)``.

    Raises:
        OSError: ``proc_root`` is not a proc file system.
    """
    return (proc_root / "sys/kernel/random/boot_id").read_text().strip()
