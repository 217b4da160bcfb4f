"""The recorder of a node: listeners may come at any time, and are told first what is there already."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from plugbay.manager.config import ManagerConfig
from plugbay.manager.manager import DeviceManager
from plugbay.node.api.recording.devices import RecordedDevices, about, held_by
from plugbay.ops.clock import Clock
from plugbay.traffic.file import RecordingFile, RecordingSettings
from plugbay.traffic.file_format import RecordingHeader, header_of
from plugbay.traffic.masking import masked, masked_step
from plugbay.traffic.pod_events import PodEvent, RecordedStep
from plugbay.traffic.recorder import TrafficRecorder
from plugbay.traffic.records import TrafficRecord
from plugbay.traffic.tap import TappedTransport
from plugbay.version import VERSION

logger = logging.getLogger(__name__)

Recorded = TrafficRecord | PodEvent
Listener = Callable[[Recorded], object]


class NodeRecorder:
    """Hands on all that passes between a node and its plugins, and each step of its pods.

    Nobody listens as a rule, and then nothing is kept.

    Attributes:
        transport: the manager's way to plugins.
    """

    def __init__(self, config: ManagerConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._began_s = clock.monotonic()
        self._traffic = TrafficRecorder(clock, most=0)
        self._manager: DeviceManager | None = None
        self._pod_listeners: list[Callable[[PodEvent], object]] = []
        self.transport: Final = TappedTransport(self._traffic)

    def header(self, *, is_masked: bool) -> RecordingHeader:
        """The header of a recording that begins now, with the settings that a replay needs."""
        config = self._config
        settings: Mapping[str, Any] = {
            "name": "plugbay",
            "version": VERSION,
            "topology_policy": config.topology.policy,
            "topology_scope": config.topology.scope,
            "topology_options": dict(config.topology.options),
            "feature_gates": sorted(gate.value for gate in config.gates.enabled),
            "numa_nodes": list(config.numa.nodes),
        }
        return header_of(self._clock.now(), is_masked=is_masked, manager=settings)

    def devices(self, manager: DeviceManager) -> RecordedDevices:
        """The manager for pods; it is looked at from now on."""
        self._manager = manager
        return RecordedDevices(manager, self._tell)

    @contextmanager
    def listening(self, listener: Listener, *, is_masked: bool) -> Iterator[None]:
        """Tell ``listener`` what is there, and during the block what comes; times count from now."""
        since_s = self._clock.monotonic() - self._began_s

        def take(record: TrafficRecord) -> None:
            record = replace(record, at_s=record.at_s - since_s)
            listener(masked(record) if is_masked else record)

        def take_step(event: PodEvent) -> None:
            event = replace(event, at_s=event.at_s - since_s)
            listener(masked_step(event) if is_masked else event)

        for record in self.transport.present():
            listener(masked(record) if is_masked else record)
        for event in self._held():
            listener(event)
        self._traffic.listeners.append(take)
        self._pod_listeners.append(take_step)
        try:
            yield
        finally:
            self._traffic.listeners.remove(take)
            self._pod_listeners.remove(take_step)

    @contextmanager
    def recording(self, settings: RecordingSettings | None) -> Iterator[None]:
        """Keep a file during the block, if there are settings; the node goes on when it cannot be written.

        Raises:
            PathUnusable: it cannot be made.
        """
        if settings is None:
            yield
            return
        header = self.header(is_masked=settings.is_masked)
        with (
            RecordingFile(settings.path, header, most_bytes=settings.most_bytes) as file,
            self.listening(_Keeper(file).take, is_masked=settings.is_masked),
        ):
            logger.info("recording plugins and pods to %s", settings.path)
            yield

    def _held(self) -> Iterator[PodEvent]:
        """The pods that hold devices now."""
        if self._manager is None:
            return
        for pod in self._manager.admitted_pods.active_pods():
            if devices := held_by(self._manager, pod.uid):
                yield PodEvent(0, RecordedStep.HELD, pod.uid, **about(pod), devices=devices)

    def _tell(self, step: RecordedStep, uid: str, **more: Any) -> None:
        if self._pod_listeners:
            event = PodEvent(self._clock.monotonic() - self._began_s, step, uid, **more)
            for listener in tuple(self._pod_listeners):
                listener(event)


class _Keeper:
    """Writes to a file, and says once why it does no more."""

    def __init__(self, file: RecordingFile) -> None:
        self._file = file
        self._has_ended = False

    def take(self, event: Recorded) -> None:
        if self._has_ended:
            return
        try:
            self._file.take(event)
        except OSError as error:
            self._has_ended = True
            problem = error.strerror or error
            logger.warning("cannot write %s: %s; the recording ends here, the node goes on", self._file.path, problem)
        else:
            if self._file.is_full:
                self._has_ended = True
                logger.warning(
                    "%s has reached its greatest size; the recording ends here, the node goes on", self._file.path
                )
