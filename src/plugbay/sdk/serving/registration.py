"""Registration of one resource with a kubelet, by either route, and the kubelet's answers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from plugbay.errors import RegistrationRefused, RpcCode, RpcFailed
from plugbay.model.devices import PluginOptions
from plugbay.model.ids import ResourceName
from plugbay.ops.tasks import first
from plugbay.sdk.serving.handover import Handover
from plugbay.sdk.serving.life import PluginLife
from plugbay.wire.plugin_versions import API_VERSIONS
from plugbay.wire.pluginregistration import DEVICE_PLUGIN, PluginInfo, RegistrationStatus
from plugbay.wire.registration import Registration, register

logger = logging.getLogger(__name__)

REGISTER_TIMEOUT_S: Final = 15.0
"""A kubelet dials back for at most 10 s inside the call."""

_SETTLING_S: Final = 0.7
"""A watcher waits for one second."""

_REFUSED: Final = RpcCode.UNKNOWN
"""The code that Go's gRPC gives to an error of a handler."""


class Registrar:
    """Registers one resource at ``kubelet.sock``, and logs each answer once, those to a plugin watcher too.

    Args:
        refused: is called each time the kubelet says no.
    """

    def __init__(
        self,
        kubelet: Path,
        life: PluginLife,
        options: PluginOptions,
        refused: Callable[[RegistrationRefused], None],
    ) -> None:
        self._kubelet = kubelet
        self._life = life
        self._resource = life.resource
        self._options = options
        self._refused = refused
        self._last_problem = ""

    async def register(self, endpoint: str) -> bool:
        """Try once, in the best API version that the kubelet takes; returns whether it accepted."""
        for version in API_VERSIONS:
            registration = Registration(version, endpoint, self._resource)
            try:
                await register(self._kubelet, registration, options=self._options, timeout_s=REGISTER_TIMEOUT_S)
            except RpcFailed as error:
                problem = error
                if error.code is not _REFUSED:
                    break
            else:
                self._accepted(f"with the kubelet at {self._kubelet}")
                return True
        if problem.code is _REFUSED:
            self._denied(problem.detail)
        elif self._is_new(str(problem)):  # the kubelet is not there yet, which is not an error
            logger.info("%s: no answer at %s, trying again: %s", self._resource, self._kubelet, problem)
        return False

    def absent(self) -> None:
        """Note that the kubelet has no socket to call."""
        if self._is_new("absent"):
            logger.info("%s: waiting for a kubelet at %s", self._resource, self._kubelet)

    def answered(self, status: RegistrationStatus) -> None:
        """Note whether a plugin watcher has registered the plugin."""
        if status.plugin_registered:
            self._accepted("by the kubelet's plugin watcher")
        else:
            self._denied(status.error)

    def _accepted(self, how: str) -> None:
        logger.info("%s: registered %s", self._resource, how)
        self._life.refusal = self._last_problem = ""

    def _denied(self, words: str) -> None:
        self._life.deny(words)
        if self._is_new(words):
            logger.error("%s: the kubelet refuses the registration: %s", self._resource, words)
        self._refused(RegistrationRefused(f"{self._resource}: registration refused: {words}"))

    def _is_new(self, problem: str) -> bool:
        """Whether it differs from the last problem, which need not be said again."""
        before, self._last_problem = self._last_problem, problem
        return problem != before


class FoundRegistration:
    """Answers a plugin watcher, for one incarnation.

    Args:
        handover: tells whether this process is to be registered.
        asked: is called for each attempt of the watcher.
        answered: is called with the outcome of the attempt.
    """

    def __init__(
        self,
        resource: ResourceName,
        handover: Handover,
        asked: Callable[[], None],
        answered: Callable[[RegistrationStatus], None],
    ) -> None:
        self._resource = resource
        self._handover = handover
        self._asked = asked
        self._answered = answered

    async def info(self) -> PluginInfo:
        """Name no endpoint: the kubelet then takes the socket it found, by a path that is right where it runs.

        Raises:
            RpcFailed: a younger process is to be registered; the watcher asks again later.
        """
        await first(self._handover.settled.wait(), timeout_s=_SETTLING_S)
        if self._handover.is_asked:
            raise RpcFailed(RpcCode.UNAVAILABLE, f"a younger process serves {self._resource}")
        self._asked()
        return PluginInfo(DEVICE_PLUGIN, self._resource, versions=API_VERSIONS)

    async def notified(self, status: RegistrationStatus) -> None:
        self._answered(status)
