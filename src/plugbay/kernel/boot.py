"""Which boot of the machine this is."""

from __future__ import annotations

from pathlib import Path


def read_boot_id(proc_root: Path) -> str:
    """A text that no other boot of any machine has; containers see that of their machine. Source: ``random(4)``.

    Raises:
        OSError: ``proc_root`` is no proc file system.
    """
    return (proc_root / "sys/kernel/random/boot_id").read_text().strip()
