"""The node's pages: ``/metrics``, ``/healthz``, ``/readyz``, ``/status``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from plugbay.kernel.unix_sockets import is_listening
from plugbay.manager.manager import DeviceManager
from plugbay.manager.metrics import manager_metrics, pod_resources_metrics
from plugbay.manager.podresources import CallCounts
from plugbay.node.api.devices import devices_object
from plugbay.node.objects import NodeFacts
from plugbay.node.parts import NodeParts
from plugbay.node.status import Json, timestamp
from plugbay.ops.clock import Clock
from plugbay.ops.metrics import Kind, Metric
from plugbay.ops.pages import Pages
from plugbay.ops.process import process_metrics

_PROC: Final = Path("/proc/self")
_OUT_OF: Final = "OutOf"


class NodePages:
    """What a node shows of itself, from its start on.

    Args:
        registration: the socket that plugins register at.

    Attributes:
        manager, calls, parts, facts: set as they come to be; ``calls`` are those of PodResources.
        is_ready: whether pods are taken.
    """

    def __init__(self, registration: Path, clock: Clock) -> None:
        self.manager: DeviceManager | None = None
        self.calls: CallCounts | None = None
        self.parts: NodeParts | None = None
        self.facts: NodeFacts | None = None
        self.is_ready = False
        self._registration = registration
        self._started = clock.now()

    def pages(self) -> Pages:
        return Pages(self._metrics, {"device-plugin": self._registration_problem}, self._unready, self._status)

    def _metrics(self) -> Iterator[Metric]:
        if self.manager is not None:
            yield from manager_metrics(self.manager)
        if self.calls is not None:
            yield from pod_resources_metrics(self.calls)
        if self.parts is not None:
            yield rejections_metric(self.parts.rejections)
        yield from process_metrics(_PROC, started=self._started)

    def _registration_problem(self) -> str:
        """Of the kubelet's health check; like it, it does not mind a socket whose file was removed (spec 9.4)."""
        if self.manager is None or is_listening(self._registration, proc=_PROC):
            return ""
        return (
            "device registration error: device plugin registration gRPC server failed "
            "and no device plugins can register"
        )

    def _unready(self) -> list[str]:
        if not self.is_ready:
            return ["the node is starting or stopping"]
        return [problem] if (problem := self._registration_problem()) else []

    def _status(self) -> Json:
        status: Json = {"startTime": timestamp(self._started), "ready": not self._unready()}
        if self.facts is not None:
            status |= {"version": self.facts.version, "node": self.facts.name}
        if self.manager is not None and self.parts is not None:
            status |= devices_object(self.manager, self.parts.pods)
        return status


def rejections_metric(rejections: Counter[str]) -> Metric:
    """The kubelet's counter of pods that were not admitted; extended resources have one label together."""
    by_label: Counter[str] = Counter()
    for reason, count in rejections.items():
        by_label[_label(reason)] += count
    samples: list[tuple[Mapping[str, str], float]] = [({"reason": label}, count) for label, count in by_label.items()]
    return Metric("kubelet_admission_rejections_total", Kind.COUNTER, "Pods that were not admitted.", samples)


def _label(reason: str) -> str:
    is_extended = reason.startswith(_OUT_OF) and "/" in reason
    return "OutOfExtendedResources" if is_extended else reason
