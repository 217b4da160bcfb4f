"""Join what is known of exclusive CPUs and memory. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from plugbay.model.podresources import ContainerMemory, PodResources
from plugbay.observe.evidence import KnownPod, NodeEvidence
from plugbay.observe.view import DeviceHolder, ExclusiveUse, ExclusiveView, Witness


def joined_exclusive(evidence: NodeEvidence) -> ExclusiveView:
    """CPUs and memory of containers: by PodResources if it listed all pods, else CPUs by the CPU manager's file.

    A kubelet has CPUs to give, whatever its policy; one that tells none, as our node, does not manage them.
    """
    allocatable = evidence.allocatable
    cpus = tuple(sorted(set(allocatable.cpu_ids))) if allocatable is not None and allocatable.cpu_ids else None
    uses: tuple[ExclusiveUse, ...] | None = None
    if evidence.pods is not None and evidence.only_pod is None:
        uses = tuple(_by_pods(evidence))
    elif evidence.exclusive_cpus is not None:
        uses = tuple(_by_file(evidence, evidence.exclusive_cpus))
    return ExclusiveView(
        allocatable_cpus=cpus,
        allocatable_memory=None if allocatable is None else _by_type(allocatable.memory),
        uses=None if allocatable is not None and cpus is None and not uses else uses,
    )


def _by_pods(evidence: NodeEvidence) -> Iterator[ExclusiveUse]:
    for pod in sorted(evidence.pods or (), key=lambda each: (each.namespace, each.name)):
        cpus, memory = set(pod.cpu_ids), Counter(_by_type(pod.memory))
        for container in pod.containers:
            if container.cpu_ids or container.memory:
                of_container = _by_type(container.memory)
                yield _use(pod, container.name, container.cpu_ids, of_container)
                cpus.difference_update(container.cpu_ids)
                memory -= Counter(of_container)
        if cpus or memory:
            yield _use(pod, "", cpus, memory)


def _use(pod: PodResources, container: str, cpus: Iterable[int], memory: Mapping[str, int]) -> ExclusiveUse:
    witnesses = frozenset({Witness.POD_RESOURCES})
    holder = DeviceHolder(container=container, pod=pod.name, namespace=pod.namespace, witnesses=witnesses)
    return ExclusiveUse(holder=holder, cpus=tuple(sorted(set(cpus))), memory=dict(sorted(memory.items())))


def _by_file(evidence: NodeEvidence, exclusive: Mapping[tuple[str, str], tuple[int, ...]]) -> Iterator[ExclusiveUse]:
    for (uid, container), cpus in sorted(exclusive.items()):
        pod = evidence.known_pods.get(uid, KnownPod())
        holder = DeviceHolder(
            container=container,
            pod=pod.name,
            namespace=pod.namespace,
            uid=uid,
            since=pod.since,
            witnesses=frozenset({Witness.CPUS}),
        )
        yield ExclusiveUse(holder=holder, cpus=cpus)


def _by_type(memory: Iterable[ContainerMemory]) -> dict[str, int]:
    sizes: Counter[str] = Counter()
    for each in memory:
        sizes[each.memory_type] += each.size
    return dict(sorted(sizes.items()))
