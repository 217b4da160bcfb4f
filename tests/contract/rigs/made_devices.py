"""Devices that this kernel makes for a test, and that are gone after it."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

CONTROL: Final = Path("/dev/loop-control")
ADD, REMOVE = 0x4C80, 0x4C81  # LOOP_CTL_ADD, LOOP_CTL_REMOVE of linux/loop.h
NUMBER: Final = 5000 + os.getpid() % 5000
"""The number of this process's first loop device."""


def _tell(request: int, number: int) -> None:
    control = os.open(CONTROL, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(control, request, number)
    finally:
        os.close(control)


@contextmanager
def loop_device(number: int = NUMBER) -> Iterator[str]:
    """A loop device without a file; skips the test where none can be made."""
    try:
        _tell(ADD, number)
    except OSError as error:
        pytest.skip(f"no loop device can be made here: {error}")
    try:
        yield f"loop{number}"
    finally:
        with suppress(OSError):
            _tell(REMOVE, number)


def ip_link(*words: str) -> None:
    subprocess.run(["ip", "link", *words], check=True, capture_output=True)


@contextmanager
def veth(here: str, there: str) -> Iterator[None]:
    """Two network interfaces that are one cable; the first may be renamed. Skips where none can be made."""
    try:
        ip_link("add", here, "type", "veth", "peer", "name", there)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no pair of interfaces can be made here: {error}")
    try:
        yield
    finally:
        with suppress(subprocess.CalledProcessError):
            ip_link("del", there)  # and with it the other
