"""The capabilities that this process could hand on.

Source: Linux ``proc_pid_status(5)``.
"""

from __future__ import annotations

from pathlib import Path

from plugbay.model.capabilities import CAPABILITIES


def held_capabilities(*, proc_root: Path) -> tuple[str, ...]:
    """The capabilities that this process may have in effect: names without ``CAP_``, by number."""
    status = (proc_root / "self/status").read_text()
    permitted = next(line.split()[1] for line in status.splitlines() if line.startswith("CapPrm:"))
    return tuple(name for number, name in enumerate(CAPABILITIES) if int(permitted, 16) >> number & 1)
