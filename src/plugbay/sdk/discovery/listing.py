"""The list of devices: those found last, each with the health that all its judges agree on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from plugbay.errors import PlugbayError
from plugbay.model.devices import Device, check_names, index_devices
from plugbay.model.health import Health, HealthState
from plugbay.model.ids import DeviceId
from plugbay.sdk.discovery.differences import log_differences

logger = logging.getLogger(__name__)

SETTLE_S: Final = 0.01
"""Verdicts that come this close together make one list: a list of 10,000 devices costs some milliseconds."""

_GRAVITY: Final = {HealthState.HEALTHY: 0, HealthState.UNKNOWN: 1, HealthState.UNHEALTHY: 2}


class Judge(Protocol):
    """A watcher of the health of devices."""

    def health_of(self, device: DeviceId) -> Health: ...

    def devices_changed(self) -> None:
        """Hear that there are new devices, or that some are gone."""
        ...


class Restraint(Protocol):
    """A part that may keep devices from being listed at all; see `modes`.

    Attributes:
        tell: is to be called with the reason when it judges otherwise than before.
    """

    tell: Callable[[str], object] | None

    def learn(self, devices: Iterable[Device]) -> None: ...

    def withdrawn(self, devices: Iterable[Device]) -> frozenset[DeviceId]: ...


class Listing:
    """The devices of one plugin: what discovery says, the judges' verdicts, and allocations that failed.

    Args:
        publish: is handed each new list; what it raises leaves the list before in force.
    """

    def __init__(self, publish: Callable[[Iterable[Device]], None]) -> None:
        self._publish = publish
        self._judges: list[Judge] = []
        self._found: Mapping[DeviceId, Device] = {}
        self._failed: dict[DeviceId, tuple[int, Health]] = {}
        self._moment = 0
        self._timer: asyncio.TimerHandle | None = None
        self._name = ""
        self._offered: Mapping[DeviceId, Device] = {}  # of the found ones, those that may be given
        self._restraint: Restraint | None = None
        self._published: Mapping[DeviceId, Device] = {}
        self._whys: dict[str, None] = {}
        self._on_failure: Callable[[], object] | None = None

    def follow(self, name: str, on_failure: Callable[[], object]) -> None:
        """Log every difference from one list to the next as of ``name``, and tell when devices could not be given."""
        self._name, self._on_failure = name, on_failure

    def restrain(self, restraint: Restraint) -> None:
        """Leave out what ``restraint`` withdraws, from now on."""
        self._restraint = restraint
        restraint.tell = self._offer_anew

    @property
    def has_failed(self) -> bool:
        """Whether devices that could not be given wait for a judge that finds them healthy."""
        return bool(self._failed)

    @property
    def devices(self) -> Mapping[DeviceId, Device]:
        """The devices as they were discovered, by ID, without those withdrawn."""
        return self._offered

    def moment(self) -> int:
        """A moment to ask for before looking at devices: a look says nothing about failures after it."""
        return self._moment

    def found(self, devices: Iterable[Device], *, moment: int, why: str) -> None:
        """List ``devices``, which are all now; ``why`` says what made the plugin look.

        Raises:
            DuplicateDevice, DuplicateDeviceName, DeviceListTooLarge: the list stays as it was.
        """
        fresh = index_devices(sorted(devices, key=lambda device: device.id))
        check_names(fresh.values())
        before, failed = self._found, self._failed
        self._found = fresh
        self._failed = {each: failure for each, failure in failed.items() if each in fresh}
        self._recover((device.id for device in fresh.values() if device.health.is_healthy), moment)
        try:
            if self._restraint is not None:
                self._restraint.learn(fresh.values())
            self.publish(why)
        except Exception:
            self._found, self._failed = before, failed
            raise
        for judge in self._judges:
            judge.devices_changed()

    def add_judge(self, judge: Judge) -> None:
        """Ask ``judge`` about every device from now on. The gravest word counts, of equals the first."""
        self._judges.append(judge)

    def judged(self, healthy: Iterable[DeviceId], *, moment: int, why: str) -> None:
        """The judges have new verdicts; ``healthy`` are the devices that a check found healthy."""
        self._recover(healthy, moment)
        self._whys[why] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SETTLE_S, self._publish_late)

    def allocation_failed(self, failures: Mapping[DeviceId, Health]) -> None:
        """Devices that could not be given: so listed until something that looked later says they are healthy."""
        self._moment += 1
        self._failed.update({each: (self._moment, health) for each, health in failures.items() if each in self._found})
        self._whys["allocate()"] = None
        self._publish_late()
        if self._on_failure is not None:
            self._on_failure()

    def publish(self, why: str = "") -> None:
        """Publish the list as it is now; the log gives ``why`` after the reasons noted before."""
        self._cancel_timer()
        offered = self._not_withdrawn()
        fresh = {each: device.with_health(self.health_of(device)) for each, device in offered.items()}
        self._publish(fresh.values())
        self._offered = offered
        before, self._published = self._published, fresh
        whys = dict.fromkeys((*self._whys, why) if why else self._whys)
        self._whys.clear()
        if self._name:
            log_differences(self._name, before, fresh, why=", ".join(whys))

    def health_of(self, device: Device) -> Health:
        """The gravest word on a device."""
        words = [device.health, *(judge.health_of(device.id) for judge in self._judges)]
        if device.id in self._failed:
            words.append(self._failed[device.id][1])
        return max(words, key=lambda health: _GRAVITY[health.state])

    def close(self) -> None:
        self._cancel_timer()

    def _not_withdrawn(self) -> Mapping[DeviceId, Device]:
        if self._restraint is None or not (withdrawn := self._restraint.withdrawn(self._found.values())):
            return self._found
        return {each: device for each, device in self._found.items() if each not in withdrawn}

    def _offer_anew(self, why: str) -> None:
        self._whys[why] = None
        self._publish_late()
        for judge in self._judges:  # one that comes back is judged anew: its hardware was used otherwise
            judge.devices_changed()

    def _recover(self, healthy: Iterable[DeviceId], moment: int) -> None:
        if not self._failed:
            return
        for each in healthy:
            if each in self._failed and self._failed[each][0] <= moment:
                del self._failed[each]

    def _publish_late(self) -> None:
        try:
            self.publish()
        except PlugbayError as error:  # a list at the very limit of what a kubelet takes
            logger.error("the list stays as it was: %s", error)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
