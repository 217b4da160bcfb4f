"""The node's pages: ``/metrics``, ``/healthz``, ``/readyz``, ``/status``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from plugbay.documents import Json
from plugbay.kernel.unix_sockets import is_listening
from plugbay.manager.manager import DeviceManager
from plugbay.manager.metrics import manager_metrics, pod_resources_metrics
from plugbay.manager.serving.podresources import CallCounts
from plugbay.node.api.devices import devices_object
from plugbay.node.api.objects import NodeFacts
from plugbay.ops.clock import Clock
from plugbay.ops.metrics import Metric, MetricKind
from plugbay.ops.pages import Pages
from plugbay.ops.process import process_metrics
from plugbay.pods.status import timestamp
from plugbay.pods.store.table import PodTable

_PROC: Final = Path("/proc/self")
_OUT_OF: Final = "OutOf"


class NodePages:
    """The state of a node as its pages show it, from its start on.

    Args:
        registration: the socket that plugins register at.

    Attributes:
        manager, calls, pods, rejections, facts: set as soon as they exist; ``calls`` counts the calls of PodResources.
        is_ready: whether the node takes pods.
    """

    def __init__(self, registration: Path, clock: Clock) -> None:
        self.manager: DeviceManager | None = None
        self.calls: CallCounts | None = None
        self.pods: PodTable | None = None
        self.rejections: Counter[str] | None = None
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
        if self.rejections is not None:
            yield rejections_metric(self.rejections)
        yield from process_metrics(_PROC, started=self._started)

    def _registration_problem(self) -> str:
        """The problem in the kubelet's health check, which does not mind a removed socket file (spec 9.4)."""
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
        if self.manager is not None and self.pods is not None:
            status |= devices_object(self.manager, self.pods)
        return status


def rejections_metric(rejections: Counter[str]) -> Metric:
    """The kubelet's counter of pods that were not admitted; extended resources have one label together."""
    by_label: Counter[str] = Counter()
    for reason, count in rejections.items():
        by_label[_label(reason)] += count
    samples: list[tuple[Mapping[str, str], float]] = [({"reason": label}, count) for label, count in by_label.items()]
    return Metric("kubelet_admission_rejections_total", MetricKind.COUNTER, "Pods that were not admitted.", samples)


def _label(reason: str) -> str:
    is_extended = reason.startswith(_OUT_OF) and "/" in reason
    return "OutOfExtendedResources" if is_extended else reason
