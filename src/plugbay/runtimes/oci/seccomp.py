"""The profile ``RuntimeDefault``: system calls that no container should need, refused; pure.

Engines allow a list and refuse the rest. This one refuses a list, which is what those leave out on purpose: calls that
change the machine rather than the container, look into other processes or the kernel, or make namespaces. Calls that a
capability is for are allowed to a container that has it.

Source: Linux ``capabilities(7)``, ``syscalls(2)``; the OCI runtime specification 1.0.2 ``config-linux.md``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from plugbay.cdi.inject import OciSpec

_EPERM: Final = 1
_ENOSYS: Final = 38
_CLONE_NEW: Final = 0x7E020000
"""The flags of ``clone`` that make a namespace."""

_FOR: Final[Mapping[str, tuple[str, ...]]] = {
    "": (
        *("_sysctl", "add_key", "create_module", "get_kernel_syms", "keyctl", "nfsservctl", "query_module"),
        *("request_key", "sysfs", "uselib", "userfaultfd", "ustat", "vm86", "vm86old"),
        *("io_uring_enter", "io_uring_register", "io_uring_setup", "move_pages", "migrate_pages"),
    ),
    "SYS_ADMIN": (
        *("bpf", "fanotify_init", "fsconfig", "fsmount", "fsopen", "fspick", "lookup_dcookie", "mount"),
        *("mount_setattr", "move_mount", "open_tree", "perf_event_open", "pivot_root", "quotactl", "quotactl_fd"),
        *("setdomainname", "sethostname", "setns", "swapoff", "swapon", "umount", "umount2", "unshare"),
    ),
    "SYS_BOOT": ("kexec_file_load", "kexec_load", "reboot"),
    "DAC_READ_SEARCH": ("open_by_handle_at",),
    "SYS_MODULE": ("delete_module", "finit_module", "init_module"),
    "SYS_NICE": ("get_mempolicy", "mbind", "set_mempolicy", "set_mempolicy_home_node"),
    "SYS_PACCT": ("acct",),
    "SYS_PTRACE": ("kcmp", "pidfd_getfd", "process_madvise", "process_vm_readv", "process_vm_writev", "ptrace"),
    "SYS_RAWIO": ("ioperm", "iopl"),
    "SYS_TIME": ("clock_adjtime", "clock_settime", "clock_settime64", "settimeofday", "stime"),
    "SYSLOG": ("syslog",),
}
_ARCHITECTURES: Final[Mapping[str, tuple[str, ...]]] = {
    "x86_64": ("SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"),
    "aarch64": ("SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"),
}


def default_profile(capabilities: Collection[str], *, machine: str) -> OciSpec:
    """The profile for ``linux.seccomp`` of a container.

    Args:
        capabilities: those in its bounding set, without ``CAP_``.
        machine: as ``uname -m`` says it; on one that is not known only its own kind of program runs.
    """
    refused = [name for needed, names in _FOR.items() if needed not in capabilities for name in names]
    rules: list[OciSpec] = [{"names": refused, "action": "SCMP_ACT_ERRNO", "errnoRet": _EPERM}]
    if "SYS_ADMIN" not in capabilities:
        rules += [
            {"names": ["clone"], "action": "SCMP_ACT_ERRNO", "errnoRet": _EPERM, "args": [_has(bit)]}
            for bit in _bits(_CLONE_NEW)
        ]
        # Its flags are in memory, where no filter looks; the C library falls back to clone.
        rules.append({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS})
    architectures = {"architectures": list(_ARCHITECTURES[machine])} if machine in _ARCHITECTURES else {}
    return {"defaultAction": "SCMP_ACT_ALLOW", **architectures, "syscalls": rules}


def _has(flag: int) -> OciSpec:
    return {"index": 0, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ"}


def _bits(mask: int) -> list[int]:
    return [1 << place for place in range(mask.bit_length()) if mask >> place & 1]
