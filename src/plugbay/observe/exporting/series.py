"""The metrics of a node's devices and of the containers that hold them. Pure.

Containers are named by the labels ``namespace``, ``pod`` and ``container``, as Kubernetes asks of monitors of devices;
a pod whose name is not known has its UID in ``pod``. Moments are seconds of 1970, so that ``time() - x`` is an age.

Source: Kubernetes instrumentation guidelines, "Dimensionality & Cardinality"; Kubernetes 1.36 "Monitoring device plugin
resources", for the calculation of the shared pool of CPUs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from plugbay.observe.exporting.bounds import MAX_SERIES, BoundedMetrics
from plugbay.observe.view import DeviceHolder, DeviceView, HealthWord, ObservedNode, ResourceView, Witness

_Samples: TypeAlias = Iterator[tuple[Mapping[str, str], float]]
_NO_LABELS: Final[Mapping[str, str]] = {}


def node_metrics(view: ObservedNode, *, max_series: int = MAX_SERIES) -> BoundedMetrics:
    """The metrics of what was last seen of the node."""
    metrics = BoundedMetrics(max_series)
    _count_resources(metrics, view)
    _name_containers(metrics, view)
    _split_cpus_and_memory(metrics, view)
    _look_at_kubelet(metrics, view)
    return metrics


def source_metrics(view: ObservedNode, *, max_series: int = MAX_SERIES) -> BoundedMetrics:
    """Whether each source could be read just now, and whether the kubelet would load its checkpoint."""
    metrics = BoundedMetrics(max_series)
    missing = {problem.witness for problem in view.problems}
    metrics.gauge(
        "plugbay_node_source_up",
        "0 for a source that could not be read last, 1 for any other.",
        (({"source": each.value}, each not in missing) for each in Witness),
    )
    checkpoint = view.checkpoint
    if checkpoint is not None:
        written = [] if checkpoint.written is None else [(_NO_LABELS, checkpoint.written.timestamp())]
        metrics.gauge("plugbay_node_checkpoint_written_timestamp_seconds", "When the checkpoint was written.", written)
        # A kubelet without a checkpoint is well: it has not given a device yet.
        valid = not checkpoint.problem
        metrics.gauge(
            "plugbay_node_checkpoint_valid", "1 if a kubelet would load the checkpoint.", [(_NO_LABELS, valid)]
        )
    _look_at_sockets(metrics, view)
    return metrics


def _count_resources(metrics: BoundedMetrics, view: ObservedNode) -> None:
    metrics.gauge("plugbay_node_devices", "Devices that are known, by health.", _by_health(view))
    for name, text in (
        ("capacity", "Devices, healthy or not, where that is known."),
        ("allocatable", "Healthy devices, held or not, where that is known."),
        ("allocated", "Devices that containers hold."),
        ("free", "Devices that a new pod could get, where that is known."),
    ):
        metrics.gauge(f"plugbay_node_resource_{name}", text, _amounts(view, name))
    metrics.gauge(
        "plugbay_node_device_disagreements",
        "Devices about which sources contradict each other.",
        (
            ({"resource_name": each.name}, sum(bool(device.disagreements) for device in each.devices))
            for each in view.resources
        ),
    )


def _by_health(view: ObservedNode) -> _Samples:
    for resource in view.resources:
        counts = Counter(device.health.word for device in resource.devices)
        for word in HealthWord:
            yield {"resource_name": resource.name, "health": word.value}, counts[word]


def _amounts(view: ObservedNode, name: str) -> _Samples:
    for resource in view.resources:
        amount: int | None = getattr(resource, name)
        if amount is not None:
            yield {"resource_name": resource.name}, amount


def _name_containers(metrics: BoundedMetrics, view: ObservedNode) -> None:
    metrics.gauge(
        "plugbay_node_device_assigned",
        "1 for each device and the container that holds it, with the reason if it is not healthy.",
        _assigned(view),
    )
    metrics.gauge(
        "plugbay_node_container_devices", "Devices that a container holds.", _of_containers(view, only_unhealthy=False)
    )
    metrics.gauge(
        "plugbay_node_container_unhealthy_devices",
        "Devices that a container holds though they are not healthy.",
        _of_containers(view, only_unhealthy=True),
    )


def _assigned(view: ObservedNode) -> _Samples:
    for resource, device, holder in _held(view):
        yield (
            {
                "resource_name": resource.name,
                "device": device.id,
                "numa_node": ",".join(map(str, device.numa_nodes or ())),
                "health": device.health.word.value,
                "reason": device.health.reason,
                **_container(holder),
            },
            1,
        )


def _of_containers(view: ObservedNode, *, only_unhealthy: bool) -> _Samples:
    counts: Counter[tuple[str, ...]] = Counter()
    for resource, device, holder in _held(view):
        key = (resource.name, *_container(holder).values())
        counts[key] += not only_unhealthy or device.health.word is not HealthWord.HEALTHY
    for (name, namespace, pod, container), count in counts.items():
        if count:
            yield {"resource_name": name, "namespace": namespace, "pod": pod, "container": container}, count


def _held(view: ObservedNode) -> Iterator[tuple[ResourceView, DeviceView, DeviceHolder]]:
    for resource in view.resources:
        for device in resource.devices:
            for holder in device.holders:
                yield resource, device, holder


def _container(holder: DeviceHolder) -> dict[str, str]:
    return {"namespace": holder.namespace, "pod": holder.pod or holder.uid, "container": holder.container}


def _split_cpus_and_memory(metrics: BoundedMetrics, view: ObservedNode) -> None:
    exclusive = view.exclusive
    metrics.gauge(
        "plugbay_node_cpus",
        "CPUs that pods can have: all, those that containers have to themselves, and the shared pool.",
        _pools(view),
    )
    uses = exclusive.uses or ()
    metrics.gauge(
        "plugbay_node_container_exclusive_cpus",
        "CPUs that a container has to itself.",
        ((_container(use.holder), len(use.cpus)) for use in uses if use.cpus),
    )
    metrics.gauge(
        "plugbay_node_memory_bytes",
        "Memory and huge pages that the memory manager can give to containers.",
        (({"memory_type": kind}, size) for kind, size in (exclusive.allocatable_memory or {}).items()),
    )
    metrics.gauge(
        "plugbay_node_container_exclusive_memory_bytes",
        "Memory and huge pages that the memory manager gave to a container.",
        (({"memory_type": kind, **_container(use.holder)}, size) for use in uses for kind, size in use.memory.items()),
    )


def _pools(view: ObservedNode) -> _Samples:
    exclusive = view.exclusive
    if exclusive.allocatable_cpus is not None:
        yield {"pool": "allocatable"}, len(exclusive.allocatable_cpus)
    if exclusive.uses is not None:
        yield {"pool": "exclusive"}, len({cpu for use in exclusive.uses for cpu in use.cpus})
    if exclusive.shared_cpus is not None:
        yield {"pool": "shared"}, len(exclusive.shared_cpus)


def _look_at_kubelet(metrics: BoundedMetrics, view: ObservedNode) -> None:
    metrics.gauge(
        "plugbay_node_plugin_registered_timestamp_seconds",
        "When the plugin of a resource registered last, where it or the node is of plugbay.",
        (
            ({"resource_name": each.name}, each.plugin.registered.timestamp())
            for each in view.resources
            if each.plugin is not None and each.plugin.registered is not None
        ),
    )
    metrics.counter(
        "plugbay_node_admission_failures_total",
        "Pods that the node did not admit since its start, where it is of plugbay.",
        (({"reason": reason}, count) for reason, count in (view.rejections or {}).items()),
    )


def _look_at_sockets(metrics: BoundedMetrics, view: ObservedNode) -> None:
    metrics.gauge(
        "plugbay_node_plugin_socket_listening",
        "1 for a socket in the device-plugins directory at which a process listens, 0 for another.",
        (({"socket": each.name}, each.is_listening) for each in view.sockets if not each.problem or each.is_listening),
    )
    metrics.gauge(
        "plugbay_node_plugin_socket_made_timestamp_seconds",
        "When a socket was made; a plugin makes it right before it registers.",
        (({"socket": each.name}, each.made.timestamp()) for each in view.sockets if each.made is not None),
    )
