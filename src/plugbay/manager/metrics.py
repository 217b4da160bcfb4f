"""The kubelet's metrics about devices, counted by our manager under the same names, with the same labels and bounds.

A labelled metric has a sample from its first count on, as in Go.

Source: kubelet 1.36 ``pkg/kubelet/metrics/metrics.go``, ``pluginmanager/metrics``; spec 9.1-9.3, 12.10.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from plugbay.manager.admission.topology import TopologyManager
from plugbay.manager.manager import DeviceManager
from plugbay.manager.release.releases import Releases
from plugbay.manager.serving.podresources import CallCounts, Method, PodResourcesVersion
from plugbay.model.releases import OperationKind
from plugbay.ops.metrics import Histogram, Metric, MetricKind

_Samples: TypeAlias = Iterator[tuple[Mapping[str, str], float | Histogram]]

_RELEASE_DURATIONS: Final = {
    OperationKind.POST_STOP: "device_plugin_post_stop_duration_seconds",
    OperationKind.DEALLOCATE: "device_plugin_deallocate_duration_seconds",
}
"""These names lack the prefix ``kubelet_``, because kubelets have no such metrics."""
_BOUNDARY: Final = "numa_node"


def manager_metrics(manager: DeviceManager) -> list[Metric]:
    """All metrics of the manager; those of PodResources and of rejected pods are counted elsewhere."""
    endpoints = manager.endpoints
    return [
        Metric(
            "kubelet_device_plugin_registration_total",
            MetricKind.COUNTER,
            "Calls of Register, refused ones too.",
            [({"resource_name": name}, count) for name, count in endpoints.registrations.items()],
        ),
        Metric(
            "kubelet_device_plugin_alloc_duration_seconds",
            MetricKind.HISTOGRAM,
            "How long calls of Allocate took, failed ones too.",
            [({"resource_name": name}, taken) for name, taken in endpoints.allocations.items()],
        ),
        *_topology(manager.topology),
        *_releases(manager.releases),
        Metric(
            "plugin_manager_total_plugins",
            MetricKind.GAUGE,
            "1 for each socket in the plugin registry, as it is and as it should be.",
            [*_watched(manager)],
        ),
    ]


def pod_resources_metrics(counts: CallCounts) -> list[Metric]:
    """Metrics of PodResources. Only v1 is counted by method; only errors that a kubelet counts are counted."""
    prefix = "kubelet_pod_resources_endpoint"
    totals = {
        version: sum(count for (of, _), count in counts.requests.items() if of is version)
        for version in PodResourcesVersion
    }
    metrics = [
        Metric(
            f"{prefix}_requests_total",
            MetricKind.COUNTER,
            "Calls of PodResources, by API version.",
            ((_of(version), count) for version, count in totals.items() if count),
        )
    ]
    for method in Method:
        for kind, by_call in (("requests", counts.requests), ("errors", counts.errors)):
            count = by_call[PodResourcesVersion.V1, method]
            samples = [(_of(PodResourcesVersion.V1), count)] if count else []
            about = "Calls of" if kind == "requests" else "Failed calls of"
            metrics.append(
                Metric(f"{prefix}_{kind}_{method.value}", MetricKind.COUNTER, f"{about} {method.name}.", samples)
            )
    return metrics


def _of(version: PodResourcesVersion) -> Mapping[str, str]:
    return {"server_api_version": version.value}


def _topology(topology: TopologyManager) -> list[Metric]:
    scope = {"scope": topology.policy.scope.value, "boundary": _BOUNDARY}
    return [
        Metric(
            "kubelet_topology_manager_admission_requests_total",
            MetricKind.COUNTER,
            "Pods that were to be admitted.",
            [({}, topology.requests)],
        ),
        Metric(
            "kubelet_topology_manager_admission_errors_total",
            MetricKind.COUNTER,
            "Pods that could not be admitted, where there is a policy.",
            [({}, topology.errors)],
        ),
        Metric(
            "kubelet_topology_manager_admission_duration_ms",
            MetricKind.HISTOGRAM,
            "How long admissions took, in whole milliseconds.",
            [({}, topology.durations)],
        ),
        Metric(
            "kubelet_container_aligned_compute_resources_count",
            MetricKind.COUNTER,
            "Containers, or pods, that got everything from one NUMA node, where they had to.",
            [(scope, topology.aligned)] if topology.aligned else [],
        ),
        Metric(
            "kubelet_container_aligned_compute_resources_failure_count",
            MetricKind.COUNTER,
            "Containers, or pods, that could not get everything from one NUMA node, where they had to.",
            [(scope, topology.misaligned)] if topology.misaligned else [],
        ),
    ]


def _releases(releases: Releases) -> Iterator[Metric]:
    counts = releases.counts
    for kind, name in _RELEASE_DURATIONS.items():
        yield Metric(
            name,
            MetricKind.HISTOGRAM,
            f"How long calls of {kind.value} took, by their outcome.",
            [
                ({"resource_name": resource, "code": code}, taken)
                for (of, resource, code), taken in counts.durations.items()
                if of is kind
            ],
        )
    for name, metric_kind, text, by_call in (
        ("pending", MetricKind.GAUGE, "Calls that are still to be confirmed.", releases.pending()),
        ("exhausted_total", MetricKind.COUNTER, "Calls that were given up.", counts.exhausted),
    ):
        yield Metric(
            f"device_plugin_cleanup_{name}",
            metric_kind,
            text,
            [
                ({"resource_name": resource, "operation": kind.value}, count)
                for (kind, resource), count in by_call.items()
            ],
        )


def _watched(manager: DeviceManager) -> _Samples:
    if manager.watcher is None:
        return
    for state, paths in (
        ("actual_state_of_world", manager.watcher.actual),
        ("desired_state_of_world", manager.watcher.desired),
    ):
        for path in paths:
            yield {"socket_path": str(path), "state": state}, 1
