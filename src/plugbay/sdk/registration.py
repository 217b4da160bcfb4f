"""Registering with the kubelet: one attempt, and what is said about it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from plugbay.errors import RegistrationRefused, RpcFailed
from plugbay.model.devices import PluginOptions
from plugbay.model.ids import ResourceName
from plugbay.wire.registration import API_VERSION, Registration, register

logger = logging.getLogger(__name__)

REGISTER_TIMEOUT_S: Final = 15.0
"""A kubelet dials back for at most 10 s inside the call."""

_REFUSED: Final = "Unknown"
"""What Go's gRPC makes of an error that a handler returns."""

SocketId = tuple[int, int]
"""What tells a socket from a later one at the same path: inode and time of its last change of status."""


def identify(path: Path) -> SocketId | None:
    """The socket at ``path``; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


class Registrar:
    """Registers one resource, and logs each answer once.

    Args:
        refused: told each time the kubelet says no.

    Attributes:
        refusal: the kubelet's words, if its last answer was a refusal.
    """

    def __init__(
        self,
        kubelet: Path,
        resource: ResourceName,
        options: PluginOptions,
        refused: Callable[[RegistrationRefused], None],
    ) -> None:
        self._kubelet = kubelet
        self._resource = resource
        self._options = options
        self._refused = refused
        self.refusal = ""
        self._last_problem = ""

    async def register(self, endpoint: str) -> bool:
        """Try once; returns whether the kubelet accepted."""
        registration = Registration(API_VERSION, endpoint, self._resource)
        try:
            await register(self._kubelet, registration, options=self._options, timeout_s=REGISTER_TIMEOUT_S)
        except RpcFailed as error:
            self._report(error)
            if error.code == _REFUSED:
                self.refusal = error.detail
                self._refused(RegistrationRefused(f"{self._resource}: registration refused: {error.detail}"))
            return False
        logger.info("%s: registered with the kubelet at %s", self._resource, self._kubelet)
        self.refusal = self._last_problem = ""
        return True

    def _report(self, error: RpcFailed) -> None:
        """A kubelet's word is an error, once for each text; a kubelet that is not there yet is not."""
        if str(error) == self._last_problem:
            return
        self._last_problem = str(error)
        if error.code == _REFUSED:
            logger.error("%s: the kubelet refuses the registration: %s", self._resource, error.detail)
        else:
            logger.info("%s: no answer at %s, trying again: %s", self._resource, self._kubelet, error)
