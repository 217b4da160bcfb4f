"""The capabilities that this process could hand on.

Source: Linux ``capabilities(7)``, ``include/uapi/linux/capability.h``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_NAMES: Final = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP"),
    *("LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER"),
    *("SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE"),
    *("SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP"),
    *("MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF"),
    "CHECKPOINT_RESTORE",
)
"""The names, each at its number."""


def held_capabilities(*, proc_root: Path) -> tuple[str, ...]:
    """The capabilities that this process may have in effect: names without ``CAP_``, by number."""
    status = (proc_root / "self/status").read_text()
    permitted = next(line.split()[1] for line in status.splitlines() if line.startswith("CapPrm:"))
    return tuple(name for number, name in enumerate(_NAMES) if int(permitted, 16) >> number & 1)
