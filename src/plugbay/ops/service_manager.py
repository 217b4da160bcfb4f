"""Tell the service manager that started this process, such as systemd, how it fares.

The process says so by itself, in datagrams of a few lines: libsystemd would be a library for one system call.

Source: ``sd_notify(3)`` and ``systemd.service(5)`` of systemd 252.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping, MutableMapping
from typing import Final

logger = logging.getLogger(__name__)

VARIABLE: Final = "NOTIFY_SOCKET"
_LONGEST_STATUS: Final = 400


class ServiceManager:
    """The manager at a socket; or none, which is told nothing.

    Args:
        address: a path, or the name of an abstract socket after ``@``; empty if no manager wants to know.
    """

    def __init__(self, address: str) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._last: Mapping[str, str] = {}

    @classmethod
    def of(cls, environ: MutableMapping[str, str]) -> ServiceManager:
        """The manager that ``environ`` names; taken out of it, as it is meant for this process alone."""
        return cls(environ.pop(VARIABLE, ""))

    @property
    def listens(self) -> bool:
        return bool(self._address)

    def ready(self, status: str) -> None:
        """Tell that this process does what it is there for; also the end of a reload."""
        self._tell(READY="1", STATUS=status)

    def reloading(self, monotonic_us: int) -> None:
        """Tell that a reload begins; `ready` ends it.

        Args:
            monotonic_us: CLOCK_MONOTONIC now, which newer managers want to have.
        """
        self._tell(RELOADING="1", MONOTONIC_USEC=str(monotonic_us))

    def status(self, status: str) -> None:
        """Tell in a sentence what this process does or waits for."""
        self._tell(STATUS=status)

    def stopping(self) -> None:
        self._tell(STOPPING="1", STATUS="")

    def _tell(self, **news: str) -> None:
        news = {name: value.replace("\n", " ")[:_LONGEST_STATUS] for name, value in news.items()}
        if not self._address or news == self._last:
            return
        message = "".join(f"{name}={value}\n" for name, value in news.items())
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
                sender.sendto(message.encode(), self._address)
        except (
            OSError
        ) as error:  # nothing here depends on it, and a manager that wants to know ends us when it does not
            logger.warning("the service manager at $%s was not told %s: %s", VARIABLE, message.split(), error.strerror)
        else:
            self._last = news
