"""The kernel's uevents as an async iterator: what it tells udev when hardware comes, goes or changes.

They reach every network namespace that belongs to the machine's first user namespace, so a pod's as well; those about
network devices reach the namespace of the device only.

Source: Linux ``lib/kobject_uevent.c``, ``netlink(7)``.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, Self

from plugbay.values import dataclass

_NETLINK_KOBJECT_UEVENT: Final = 15  # the module socket has no name for it
_KERNEL_GROUP: Final = 1
"""udev sends its own messages to group 2."""
_KERNEL_PORT: Final = 0
_MESSAGE_BYTES: Final = 8192
"""The kernel's own limit for the variables of one is 2048, and for the path PATH_MAX."""
_READ_AT_ONCE: Final = 256


@dataclass(frozen=True, slots=True)
class Uevent:
    """One event.

    Attributes:
        action: ``add``, ``remove``, ``change``, ``move``, ``bind``, ``unbind``, ``online`` or ``offline``.
        path: of the device in sysfs, without ``/sys``.
        properties: ``SUBSYSTEM``, ``DEVNAME`` and others, ``ACTION`` and ``DEVPATH`` among them.
    """

    action: str
    path: str
    properties: Mapping[str, str]

    def __str__(self) -> str:
        return f"uevent {self.action} {self.path}"


@dataclass(frozen=True, slots=True)
class UeventsLost:
    """The kernel had more events than room for them: anything may have happened."""

    def __str__(self) -> str:
        return "uevents that were lost"


def parse_uevent(message: bytes) -> Uevent | None:
    """The event of a message of the kernel's; None for anything else, such as a message of udev's."""
    head, _, rest = message.partition(b"\0")
    action, at, path = head.partition(b"@")
    if not (action and at and path.startswith(b"/")):
        return None
    properties = {}
    for entry in rest.decode(errors="replace").split("\0"):
        key, equals, value = entry.partition("=")
        if key and equals:
            properties[key] = value
    return Uevent(action.decode(errors="replace"), path.decode(errors="replace"), properties)


@asynccontextmanager
async def open_uevents() -> AsyncIterator[Uevents]:
    """Listen for uevents: look at the devices after entering, then iterate, and no change can be missed.

    Raises:
        OSError: this kernel, or a sandbox around this process, has no uevents.
    """
    uevents = Uevents()
    try:
        yield uevents
    finally:
        uevents.close()


class Uevents:
    """Events without end, for one consumer; cancelling a wait loses nothing. Used through `open_uevents`."""

    def __init__(self) -> None:
        self._socket = socket.socket(
            socket.AF_NETLINK,
            socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC,
            _NETLINK_KOBJECT_UEVENT,
        )
        try:
            self._socket.bind((0, _KERNEL_GROUP))
        except OSError:
            self._socket.close()
            raise
        self._received: deque[Uevent | UeventsLost] = deque()

    def close(self) -> None:
        self._socket.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Uevent | UeventsLost:
        while not self._received:
            self._receive()
            if not self._received:
                await self._until_readable()
        return self._received.popleft()

    def take_waiting(self) -> list[Uevent | UeventsLost]:
        """The events that are there already."""
        self._receive()
        waiting = list(self._received)
        self._received.clear()
        return waiting

    def _receive(self) -> None:
        """Read the waiting events: the kernel has room for some hundred only."""
        for _ in range(_READ_AT_ONCE):
            try:
                message, sender = self._socket.recvfrom(_MESSAGE_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                self._received.append(UeventsLost())
                continue
            if is_from_kernel(sender) and (event := parse_uevent(message)) is not None:
                self._received.append(event)

    async def _until_readable(self) -> None:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._socket, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._socket)


def is_from_kernel(sender: tuple[int, int]) -> bool:
    """Whether a message came from the kernel: programs have other port numbers than 0, and none can choose 0."""
    port, _groups = sender
    return port == _KERNEL_PORT
