"""The fault switches of a kubelet that runs in another thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plugbay.testing.local.loop_thread import LoopThread
from plugbay.testing.traffic.faults import REFUSAL, FaultSwitch, FaultSwitches
from plugbay.wire.message_values import KubeletVersion


class FaultControl:
    """A fault that was switched on; it does what `FaultSwitch` does."""

    def __init__(self, switch: FaultSwitch, thread: LoopThread[Any]) -> None:
        self._switch = switch
        self._thread = thread

    @property
    def used(self) -> int:
        """How many times it has acted."""
        return self._switch.used

    def off(self) -> None:
        """See `FaultSwitch.off`."""
        self._thread.look(self._switch.off)

    def until_used(self, *, timeout_s: float) -> None:
        """See `FaultSwitch.until_used`."""
        self._thread.do(lambda: self._switch.until_used(timeout_s=timeout_s))


class FaultControls:
    """The faults of one kubelet, for code that is not async; each method does what it does in `FaultSwitches`."""

    def __init__(self, switches: FaultSwitches, thread: LoopThread[Any]) -> None:
        self._switches = switches
        self._thread = thread

    def delay(
        self, seconds: float, *, method: str | None = None, resource: str | None = None, times: int | None = None
    ) -> FaultControl:
        """See `FaultSwitches.delay`."""
        return self._on(lambda: self._switches.delay(seconds, method=method, resource=resource, times=times))

    def hang(self, *, method: str | None = None, resource: str | None = None, times: int | None = None) -> FaultControl:
        """See `FaultSwitches.hang`."""
        return self._on(lambda: self._switches.hang(method=method, resource=resource, times=times))

    def drop(self, *, method: str | None = None, resource: str | None = None, times: int | None = None) -> FaultControl:
        """See `FaultSwitches.drop`."""
        return self._on(lambda: self._switches.drop(method=method, resource=resource, times=times))

    def reset(self, *, method: str | None = None, resource: str | None = None, times: int | None = 1) -> FaultControl:
        """See `FaultSwitches.reset`."""
        return self._on(lambda: self._switches.reset(method=method, resource=resource, times=times))

    def reset_connection(
        self, *, method: str | None = None, resource: str | None = None, times: int | None = 1
    ) -> FaultControl:
        """See `FaultSwitches.reset_connection`."""
        return self._on(lambda: self._switches.reset_connection(method=method, resource=resource, times=times))

    def refuse(self, text: str = REFUSAL, *, resource: str | None = None, times: int | None = None) -> FaultControl:
        """See `FaultSwitches.refuse`."""
        return self._on(lambda: self._switches.refuse(text, resource=resource, times=times))

    def strip_newer(
        self,
        version: KubeletVersion | None = None,
        *,
        method: str | None = None,
        resource: str | None = None,
        times: int | None = None,
    ) -> FaultControl:
        """See `FaultSwitches.strip_newer`."""
        return self._on(lambda: self._switches.strip_newer(version, method=method, resource=resource, times=times))

    def all_off(self) -> None:
        """See `FaultSwitches.all_off`."""
        self._thread.look(self._switches.all_off)

    def _on(self, switch: Callable[[], FaultSwitch]) -> FaultControl:
        return FaultControl(self._thread.look(switch), self._thread)
