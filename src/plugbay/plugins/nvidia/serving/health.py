"""The health of a node's devices while they are served: events, looks and probes, brought into one book."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from plugbay.errors import DriverCallFailed, DriverUnusable
from plugbay.model.health import Health, unhealthy, unknown
from plugbay.model.ids import ResourceName
from plugbay.plugins.nvidia.devices.devices import DeviceKind, NvidiaDevice
from plugbay.plugins.nvidia.health.book import HealthBook, problem_of
from plugbay.plugins.nvidia.health.recovery import RecoveryPolicy
from plugbay.plugins.nvidia.health.xids import xid_policy
from plugbay.plugins.nvidia.nvml.client import Nvml
from plugbay.plugins.nvidia.nvml.resting import RestingSubjects
from plugbay.plugins.nvidia.nvml.values import XID, GpuEvent, Probe, Watching
from plugbay.plugins.nvidia.serving.sight import Sight

logger = logging.getLogger(__name__)

MPS_SILENT: Final = "MpsDaemonSilent"
NODE_MISSING: Final = "DeviceNodeMissing"
_STORM_S: Final = 10.0
"""The shortest time between two lines of the log about the same XID of the same GPU."""
_PROBED: Final = (DeviceKind.GPU, DeviceKind.MIG, DeviceKind.WSL)


class NodeHealth:
    """The health of all devices of a node.

    Args:
        variables: the environment, which says which XIDs count.

    Attributes:
        book: the marks on devices.
        xid_counts: the XIDs so far, by the UUID of their GPU and their number.
        last_xids: the last XID of each GPU, by its UUID.
        warnings: about the environment.
        is_watching: whether the driver's events have ever come.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        policy, self.warnings = xid_policy(variables)
        self.book = HealthBook(policy, RecoveryPolicy())
        self.xid_counts: Counter[tuple[str, int]] = Counter()
        self.last_xids: dict[str, int] = {}
        self.is_watching = False
        self._unwatched: Mapping[str, str] = {}
        self._hindered: dict[str, Health] = {}
        self._ignored_told: dict[tuple[str, int], float] = {}
        self._resting: RestingSubjects[str] = RestingSubjects()
        self._probe_all = False
        self._is_asked_for = False  # whether an operator wants unhealthy devices to be probed
        self._probed_ids: set[str] = set()
        self._times_unusable = 0

    @property
    def checks_nothing(self) -> bool:
        """Whether the environment disables all checks: no events are asked for, no device is probed without need."""
        return self.book.xids.ignores_everything

    def health_of(self, device: NvidiaDevice, sight: Sight) -> Health:
        """The health of a device."""
        if device.id in sight.gone:
            return unhealthy("DeviceGone", "the driver does not know it any more; it leaves the list with its pod")
        if sight.trouble is not None and device.kind is not DeviceKind.TEGRA:
            return unknown(sight.trouble.reason, str(sight.trouble))
        health = self.book.health_of(device)
        if health.is_healthy:
            health = self._hindered.get(device.id, health)
        problem = self._unwatched.get(device.gpu_uuid, "")
        if health.is_healthy and problem:
            return unhealthy("NotWatched", f"the driver reports no events of it: {problem}")
        return health

    def take_event(self, event: GpuEvent, sight: Sight) -> bool:
        """Judge an event; returns whether a device is unhealthy for it."""
        if event.type != XID:
            logger.debug("event of type %d of GPU %s", event.type, event.uuid)
            return False
        self.xid_counts[event.uuid, event.number] += 1
        self.last_xids[event.uuid] = event.number
        if self.book.take(event, sight.devices(), asyncio.get_running_loop().time()):
            return True
        self._tell_ignored(event)
        return False

    def _tell_ignored(self, event: GpuEvent) -> None:
        """Tell of an XID that makes no device unhealthy, and of a storm of them only now and then."""
        which, now = (event.uuid, event.number), asyncio.get_running_loop().time()
        told_at = self._ignored_told.get(which)
        if told_at is not None and now - told_at < _STORM_S:
            return
        self._ignored_told[which] = now
        count = self.xid_counts[which]
        logger.info("XID %d of GPU %s makes no device unhealthy (%d so far)", event.number, event.uuid, count)

    def watches(self, watching: Watching) -> bool:
        """Events come from now on; returns whether a look is due."""
        is_due = self.is_watching or watching.unwatched != self._unwatched
        self._probe_all = self._probe_all or self.is_watching  # events may have been missed
        self.is_watching, self._unwatched = True, watching.unwatched
        return is_due

    def compare(self, before: Sight | None, sight: Sight, nvml: Nvml) -> None:
        """Judge what has changed from one look to the next."""
        now = asyncio.get_running_loop().time()
        devices = tuple(sight.devices())
        if before is not None and before.trouble is not None and sight.trouble is None:
            logger.info("the NVIDIA driver answers again; every device is probed")
            self._probe_all = True
        if sight.trouble is None and nvml.times_unusable != self._times_unusable:
            self._times_unusable = nvml.times_unusable
            self.book.all_were_reset(nvml.unusable_at)
        for uuid, problem in sight.lost.items():
            self.book.lose(uuid, problem)
        if sight.trouble is None:
            self.book.found(sight.gpu_uuids, devices, now)
        # A device that is gone begins anew when it returns, whether a pod has kept it in the list or not.
        self.book.keep({device.id for device in devices} - sight.gone, sight.lost.keys())

    def hinder(self, sight: Sight, silent: Mapping[ResourceName, str]) -> None:
        """Take over what keeps containers from using GPUs that are in order themselves.

        Args:
            silent: the resources whose MPS daemon does not answer any more, each with the reason.
        """
        self._hindered = {
            device.id: unhealthy(MPS_SILENT, f"the MPS daemon of {name} does not answer: {problem}")
            for name, problem in silent.items()
            for device in sight.resources[name].devices.values()
            if device.is_shared
        }
        self._hindered |= {id: unhealthy(NODE_MISSING, problem) for id, problem in sight.without_nodes.items()}

    def probe_unhealthy(self) -> None:
        """Have each unhealthy device probed at the next look; one that passes is healthy, whatever it waits for."""
        self._is_asked_for = True
        self._resting = RestingSubjects()

    async def probe_due(self, sight: Sight, nvml: Nvml) -> bool:
        """Probe the devices that are new or may come back, and after a gap of events all; False if the driver failed.

        A device on which the driver fails time and again is left alone for a while: the others need the driver.
        """
        if sight.trouble is not None:
            return True
        loop = asyncio.get_running_loop()
        due = self._due(sight, loop.time())
        probe_all, is_asked_for = self._probe_all, self._is_asked_for
        self._probe_all = self._is_asked_for = False
        for device in due:
            if self._resting.is_resting(device.id, loop.time()):
                continue
            uuids = sight.gpu_uuids if device.kind is DeviceKind.WSL else (device.id,)
            try:
                outcome = await _probe(nvml, uuids)
            except DriverUnusable as error:  # the next look tells of it
                self._probe_all |= probe_all
                self._is_asked_for |= is_asked_for
                if self._resting.died(device.id, error.reason, loop.time()):
                    self._probed(device, str(error), loop.time(), is_asked_for)
                return False
            self._resting.answered(device.id)
            self._probed(device, outcome, loop.time(), is_asked_for)
        return True

    def _due(self, sight: Sight, now: float) -> list[NvidiaDevice]:
        """The devices to be probed at this look."""
        devices = [device for device in sight.devices() if device.kind in _PROBED]
        self._probed_ids &= {device.id for device in devices}
        due = {device.id for device in self.book.due(devices, now)}
        if self._is_asked_for:
            due |= {device.id for device in self.book.marked(devices)}
        if not self.checks_nothing:
            due |= {device.id for device in devices if self._probe_all or device.id not in self._probed_ids}
        there = {device.id for device in devices if device.gpu_uuid not in sight.lost} - sight.gone
        return [device for device in devices if device.id in due & there]

    def _probed(self, device: NvidiaDevice, outcome: Probe | str, now: float, is_asked_for: bool) -> None:
        self._probed_ids.add(device.id)
        was_healthy = self.book.health_of(device).is_healthy
        self.book.probed(device, outcome, now, is_asked_for=is_asked_for)
        health = self.book.health_of(device)
        if was_healthy:
            return
        if health.is_healthy:
            logger.info("%s is healthy again: a probe passed", device.id)
        elif is_asked_for:
            logger.warning("%s stays unhealthy after the probe on SIGHUP: %s", device.id, health.message)


async def _probe(nvml: Nvml, uuids: Iterable[str]) -> Probe | str:
    """The outcome of a probe of a device: the first one that does not pass, of all its GPUs."""
    outcome: Probe | str = "the driver finds no GPU"
    for uuid in sorted(uuids):
        try:
            outcome = await nvml.probe(uuid)
        except DriverCallFailed as error:
            return f"{uuid} does not answer: {error}"
        if problem_of(outcome):
            break
    return outcome
