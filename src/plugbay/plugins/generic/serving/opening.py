"""Try whether device nodes open, without doing anything to the device. Blocks.

Some drivers take an open for an order, whatever its flags: a serial port raises its modem lines, which resets many
boards and makes modems dial or hang up when it is closed; a watchdog starts to count; a tape winds back when it is
closed. Such nodes are not opened: it counts that the kernel has their device and that this process may use them.

Others are opened with ``O_NONBLOCK``, so that no open waits for a carrier, a medium or the other end, and with
``O_NOCTTY``; for reading unless the rule gives containers no more than writing: block devices that were open for
writing make udev look at them anew, which is an event that this plugin hears.

Source: Linux ``drivers/tty/tty_port.c`` (``tty_port_block_til_ready`` raises DTR and RTS before it looks at
``O_NONBLOCK``), ``Documentation/watchdog/watchdog-api.rst``, ``st(4)``, ``Documentation/admin-guide/devices.txt``.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

from plugbay.model.edits import DeviceNode, Mount
from plugbay.model.health import HEALTHY, Health, unhealthy

_FLAGS: Final = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_BUSY: Final = frozenset({errno.EBUSY, errno.EAGAIN, errno.ETXTBSY})
"""A process has the device for itself: it works."""
_NO_MEDIUM: Final = frozenset({errno.ENOMEDIUM, errno.EMEDIUMTYPE})
"""An empty drive is a drive."""
_DENIED: Final = frozenset({errno.EACCES, errno.EPERM})
_MISC_MAJOR: Final = 10
_WATCHDOG_MINOR: Final = 130
_TAPE_MAJORS: Final = frozenset({9, 206})
_ACTING: Final = frozenset({"tty", "watchdog", "scsi_tape", "usb-serial", "tape", "tape390"})
"""Subsystems whose devices take an open for an order."""


def opening(node: DeviceNode, *, root: Path) -> Health:
    """The health of a device by one of its nodes.

    Args:
        root: of the machine's files, ``dev`` and ``sys`` among them.
    """
    path = str(root) + node.host_path if root != Path("/") else node.host_path
    wanted = os.R_OK * ("r" in node.permissions or "w" not in node.permissions) | os.W_OK * ("w" in node.permissions)
    try:
        found = os.stat(path)
        if not os.access(path, wanted):
            return unhealthy("Unreadable", f"this process may not use {node.host_path} as its containers would")
        if stat.S_ISCHR(found.st_mode) and _takes_orders(found.st_rdev, root):
            return HEALTHY
        if stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode):
            os.close(os.open(path, _FLAGS | (os.O_RDONLY if wanted & os.R_OK else os.O_WRONLY)))
    except OSError as error:
        return _judged(error, node.host_path)
    return HEALTHY


def reading(mount: Mount, *, root: Path) -> Health:
    """The health of what is mounted: whether this process may read it."""
    path = str(root) + mount.host_path if root != Path("/") else mount.host_path
    try:
        os.stat(path)
        if os.access(path, os.R_OK):
            return HEALTHY
    except OSError as error:
        return _judged(error, mount.host_path)
    return unhealthy("Unreadable", f"this process may not read {mount.host_path}")


def _judged(error: OSError, path: str) -> Health:
    if error.errno in _BUSY | _NO_MEDIUM:
        return HEALTHY
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return unhealthy("Vanished", f"{path} does not exist")
    if error.errno in _DENIED:
        return unhealthy("Unreadable", f"this process may not open {path}: {error.strerror}")
    return unhealthy("OpenFails", f"{path} does not open: {error.strerror}")


def _takes_orders(number: int, root: Path) -> bool:
    """Whether the driver of a character device takes an open for an order; so may any while sysfs cannot be read."""
    major, minor = os.major(number), os.minor(number)
    if major in _TAPE_MAJORS or (major, minor) == (_MISC_MAJOR, _WATCHDOG_MINOR):
        return True
    numbers = root / "sys/dev/char"
    try:
        subsystem = os.path.basename(os.readlink(numbers / f"{major}:{minor}/subsystem"))
    except OSError:
        return not numbers.is_dir()  # a node without a device does not open, and pseudo terminals are not in sysfs
    return subsystem in _ACTING
