"""The life of one served resource, and where in it the resource is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from plugbay.model.ids import ResourceName
from plugbay.sdk.serving.reporting import ServingReport
from plugbay.sdk.serving.states import REGISTRATIONS, TRANSITIONS, LifeEvent, State, shown

logger = logging.getLogger(__name__)


class PluginLife:
    """Moves through the table of `states`, and keeps what onlookers ask for.

    Attributes:
        refusal: the kubelet's words, if its last answer was a refusal.
        refusals: how often it refused.
        refused: its words when it last refused and when that was, in the event loop's time.
        registered: when it last accepted a registration, in the event loop's time.
        on_change: is called after each change of the state, and after each refusal.
    """

    def __init__(self, resource: ResourceName) -> None:
        self.resource = resource
        self.state = State.SETTING_UP
        self.refusal = ""
        self.refusals = 0
        self.refused: tuple[str, float] | None = None
        self.registered: float | None = None
        self.on_change: Callable[[], object] = lambda: None
        self._registrations = 0
        self._since = asyncio.get_running_loop().time()

    @property
    def report(self) -> ServingReport:
        return ServingReport(self.resource, shown(self.state), self.in_state_s, self._registrations, self.refusal)

    @property
    def in_state_s(self) -> float:
        """The seconds for which the plugin has been in its state."""
        return asyncio.get_running_loop().time() - self._since

    def deny(self, words: str) -> None:
        """Note that the kubelet refused, in these words."""
        self.refusal = words
        self.refusals += 1
        self.refused = words, asyncio.get_running_loop().time()
        self.on_change()

    def begin(self) -> None:
        """Start over, after a failure."""
        self._become(State.SETTING_UP)

    def move(self, event: LifeEvent) -> None:
        before, after = self.state, TRANSITIONS[self.state][event]
        if event in REGISTRATIONS:
            self._registrations += 1
            self.registered = asyncio.get_running_loop().time()
        if after is not before:
            self._become(after)
            logger.debug("%s: %s, %s -> %s", self.resource, event.value, before.value, after.value)

    def _become(self, state: State) -> None:
        self.state = state
        self._since = asyncio.get_running_loop().time()
        self.on_change()
