"""Runs plugbay with the arguments given where the kernel refuses inotify, as when a user has no instance left.

A seccomp filter does it, which needs no privilege and stays over an exec. Exits with 77 where there is none.
Source: Linux ``seccomp(2)``, ``include/uapi/linux/bpf_common.h``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from typing import Final

INOTIFY_INIT1: Final = {"x86_64": 294, "aarch64": 26}
PR_SET_NO_NEW_PRIVS: Final = 38
PR_SET_SECCOMP: Final = 22
SECCOMP_MODE_FILTER: Final = 2
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW: Final = 0x7FFF_0000
REFUSE: Final = 0x0005_0000
NO_SUCH_THING: Final = 77


def refuse(number: int, error: int) -> bool:
    """Have a system call fail with ``error`` for this process and what it becomes; whether that can be had."""
    program = b"".join(
        struct.pack("HBBI", *step)
        for step in (
            (LOAD, 0, 0, 0),  # the call's number
            (JUMP_IF_EQUAL, 0, 1, number),
            (RETURN, 0, 0, REFUSE | error),
            (RETURN, 0, 0, ALLOW),
        )
    )
    steps = ctypes.create_string_buffer(program, len(program))
    filter_ = ctypes.create_string_buffer(struct.pack("HP", len(program) // 8, ctypes.addressof(steps)))
    prctl = ctypes.CDLL(None).prctl
    if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    failed: int = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_void_p(ctypes.addressof(filter_)))
    return failed == 0


if __name__ == "__main__":
    number = INOTIFY_INIT1.get(platform.machine())
    if number is None or not refuse(number, errno.EMFILE):
        sys.exit(NO_SUCH_THING)
    os.execv(sys.executable, [sys.executable, "-m", "plugbay", *sys.argv[1:]])
