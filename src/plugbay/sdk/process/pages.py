"""The pages of a plugin process: ``/metrics``, ``/healthz``, ``/livez``, ``/readyz``, ``/health``, ``/status``."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from plugbay.documents import Json
from plugbay.model.devices import Device
from plugbay.model.podresources import PodResources
from plugbay.ops.clock import Clock
from plugbay.ops.metrics import Metric
from plugbay.ops.pages import Pages
from plugbay.ops.process import process_metrics
from plugbay.sdk.author.checks import HealthCheck, Isolation
from plugbay.sdk.author.plugin import health_checks
from plugbay.sdk.discovery.history import DeviceHistory
from plugbay.sdk.process.metrics import config_metrics, plugin_metrics
from plugbay.sdk.process.roster import Roster
from plugbay.sdk.process.sources import ConfigState, Configured, Measures, MeasuresServers
from plugbay.sdk.release.report import release_status
from plugbay.sdk.serving.server import PluginServer

logger = logging.getLogger(__name__)

MEASURING_S: Final = 3.0
"""The time that the metrics of a source may take: a scrape has ten seconds by default."""
POD_LIST_AGE_S: Final = 1.0
READINESS: Final = ("/readyz", "/health")
"""The second path is that of squat's plugin, which its users' probes ask."""


class PluginPages:
    """The pages of a process that serves plugins.

    Args:
        proc: this process's directory in the proc file system.

    Attributes:
        roster: what is served; None before serving has begun.
    """

    def __init__(self, clock: Clock, *, version: str, proc: Path) -> None:
        self.roster: Roster | None = None
        self._version = version
        self._proc = proc
        self._started = clock.now()
        # Moments are kept in the loop's time, which cannot jump; one offset, or they would seem to move.
        self._epoch = self._started - timedelta(seconds=asyncio.get_running_loop().time())

    def pages(self) -> Pages:
        return Pages(
            self._metrics, {}, self._unready, self._status, self._measured, notes=self._notes, readiness=READINESS
        )

    def _served(self) -> Sequence[PluginServer]:
        return () if self.roster is None else self.roster.servers

    def _metrics(self) -> list[Metric]:
        return [
            *plugin_metrics(self._served()),
            *config_metrics(self._configs()),
            *self._of_sources(),
            *process_metrics(self._proc, started=self._started),
        ]

    def _of_sources(self) -> Iterator[Metric]:
        sources = () if self.roster is None else self.roster.sources
        for source in sources:
            if isinstance(source, MeasuresServers):
                plugins = source.members
                own = [each for each in self._served() if any(each.plugin is plugin for plugin in plugins)]
                yield from source.server_metrics(own)

    async def _measured(self) -> list[Metric]:
        """The metrics that sources of plugins have to ask for. One that fails, or takes too long, gives none."""
        sources = [] if self.roster is None else [each for each in self.roster.sources if isinstance(each, Measures)]
        if not sources:
            return []
        pods, measured = await self._pods(), list[Metric]()
        for source in sources:
            limit = asyncio.timeout(MEASURING_S)
            try:
                async with limit:
                    measured += await source.metrics(pods)
            except Exception:  # the page shows what else there is
                is_late = limit.expired()
                why = f"they were not there within {MEASURING_S:g} s" if is_late else "measuring them failed"
                logger.error("metrics of %s are left out of the page, as %s", source.name, why, exc_info=not is_late)
        return measured

    async def _pods(self) -> Sequence[PodResources] | None:
        lists = None if self.roster is None else self.roster.pod_lists
        if lists is None or not lists.may_be_asked:
            return None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MEASURING_S):
                pods = await lists.pods(asked_since=asyncio.get_running_loop().time() - POD_LIST_AGE_S)
                return None if lists.problem else pods
        return None

    def _unready(self) -> list[str]:
        if self.roster is None:
            return ["nothing is served yet"]
        reports = [server.report for server in self.roster.servers]
        now = asyncio.get_running_loop().time()
        unready = [
            f"{report.resource}: {report.reason}, since {self._time(now - report.in_state_s)}"
            for report in reports
            if not report.is_ready
        ]
        return [*unready, *self.roster.missing]

    def _configs(self) -> Sequence[ConfigState]:
        sources = () if self.roster is None else self.roster.sources
        states = (each.config_state for each in sources if isinstance(each, Configured))
        return [each for each in states if each is not None]

    def _notes(self) -> list[str]:
        problems = ((each.source, each.problem) for each in self._configs() if each.problem)
        return [text if text.startswith(source) else f"{source}: {text}" for source, text in problems]

    def _status(self) -> Json:
        return {
            "version": self._version,
            "startTime": _rfc3339(self._started),
            "ready": not self._unready(),
            "resources": map(self._resource, tuple(self._served())),
            "missing": [] if self.roster is None else list(self.roster.missing),
            "configs": [
                {"source": each.source, "name": each.name, "problem": each.problem} for each in self._configs()
            ],
        }

    def _resource(self, server: PluginServer) -> Json:
        report, life, history = server.report, server.life, server.history
        now = asyncio.get_running_loop().time()
        return {
            "resourceName": server.resource,
            "state": report.state.value,
            "since": self._time(now - report.in_state_s),
            "ready": report.is_ready,
            "reason": report.reason,
            "sockets": [str(path) for path in server.sockets],
            "route": server.route.value,
            "kubeletRoot": str(server.paths.root),
            "registrations": report.registrations,
            "lastRegistration": None if life.registered is None else self._time(life.registered),
            "refusals": life.refusals,
            "lastRefusal": None
            if life.refused is None
            else {"message": life.refused[0], "time": self._time(life.refused[1])},
            "openStreams": server.counted.streams_opened - server.counted.streams_ended,
            "devices": self._devices(history),
            "calls": {
                f"{method} {outcome}": taken.count for (method, outcome), taken in sorted(server.counted.calls.items())
            },
            "discovery": self._discovery(server),
            "checks": [_check(check) for check in health_checks(server.plugin)],
            "release": None if server.release is None else release_status(server.release, self._time),
        }

    def _devices(self, history: DeviceHistory) -> Iterator[Json]:
        devices, since = tuple(history.devices.items()), dict(history.since)  # of one moment, while others go on
        for each, device in devices:
            yield self._device(device, since[each])

    def _device(self, device: Device, since: float) -> Json:
        return {
            "id": device.id,
            "deviceIDs": [each.id for each in device.listed()],
            "numaNodes": sorted(device.numa_nodes),
            "hostPaths": [node.host_path for node in device.edits.device_nodes],
            "health": {
                "state": device.health.state.value,
                "reason": device.health.reason,
                "message": device.health.message,
                "since": self._time(since),
            },
        }

    def _discovery(self, server: PluginServer) -> Json:
        looks = server.looks
        return {
            "runs": looks.taken.count,
            "failures": looks.failures,
            "changes": dict(server.history.changes),
            "last": None
            if looks.ended is None
            else {"time": self._time(looks.ended), "seconds": round(looks.last_s, 6), "problem": looks.problem},
        }

    def _time(self, moment: float) -> str:
        return _rfc3339(self._epoch + timedelta(seconds=moment))


def _check(check: HealthCheck) -> Json:
    settings = check.settings
    return {
        "name": check.name,
        "everySeconds": settings.every_s,
        "timeoutSeconds": settings.timeout_s,
        "fall": settings.fall,
        "rise": settings.rise,
        "isolated": settings.isolation is Isolation.PROCESS,
    }


def _rfc3339(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
