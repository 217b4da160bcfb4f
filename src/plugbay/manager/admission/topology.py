"""The topology manager: takes a pod through the resources it asks for, container by container, following their hints.

Source: kubelet 1.36 ``cm/topologymanager``; spec 5.3, 5.4, 5.10.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from typing import Final, Protocol

from plugbay.errors import AdmissionError, TopologyMisaligned
from plugbay.manager.admission.lanes import Lanes
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.requests import ContainerRequest, PodRequest
from plugbay.model.topology import NumaTopology
from plugbay.ops.clock import Clock
from plugbay.ops.metrics import Histogram
from plugbay.topology.hints import Hints
from plugbay.topology.masks import Mask, nodes_of
from plugbay.topology.policies import PolicyKind, TopologyPolicy, TopologyScope
from plugbay.topology.settings import USUAL_MAX_NODES, TopologySettings, make_policy, parse_options

logger = logging.getLogger(__name__)

ANYWHERE: Final[Mask] = 0
"""No affinity."""
DURATIONS_MS: Final = tuple(0.05 * 2**number for number in range(15))
"""The bounds of the kubelet's histogram."""


class PodPart(Protocol):
    """One pod's share of one resource during admission; see `plugbay.manager.admission.device_part.DevicePart`."""

    @property
    def name(self) -> str:
        """The resource. Two pods are not admitted to it at once."""
        ...

    def container_hints(self, container: ContainerRequest) -> Hints:
        """The NUMA nodes where ``container`` can have what it asks for, now that earlier containers have got theirs."""
        ...

    def pod_hints(self) -> Hints:
        """The NUMA nodes where all containers of the pod can have what they ask for."""
        ...

    async def allocate(self, container: ContainerRequest, affinity: Mask) -> None:
        """Give ``container`` what it asks for, from the nodes of ``affinity`` as far as they have it.

        Raises:
            AdmissionError: it cannot have it.
        """
        ...


class HintProvider(Protocol):
    """A resource manager beside the device manager, for resources that lie on NUMA nodes: CPUs, memory."""

    def parts(self, pod: PodRequest, running: Collection[ContainerName]) -> Sequence[PodPart]:
        """Return a part for each resource of the provider that the pod asks for."""
        ...

    def release(self, pod: PodUid) -> None:
        """Take back all that the pod was given: it has ended or was refused. Harmless twice."""
        ...


def topology_manager(settings: TopologySettings, machine: NumaTopology, *, clock: Clock) -> TopologyManager:
    """Make the topology manager of ``machine``; warn if its hints can get expensive.

    Raises:
        UnusableTopology: with the kubelet's text.
    """
    policy = make_policy(settings, machine)
    if policy.kind is not PolicyKind.NONE and (allowed := parse_options(settings.options).max_nodes) > USUAL_MAX_NODES:
        logger.warning(
            "up to %d NUMA nodes are allowed (recommended: %d): every further node doubles the hints to compare",
            allowed,
            USUAL_MAX_NODES,
        )
    return TopologyManager(policy, clock=clock)


class TopologyManager:
    """Made by `topology_manager`.

    Attributes:
        policy: decides about hints.
        requests: number of admissions.
        errors: number of admissions that failed under another policy than ``none``.
        durations: how long admissions took, in whole milliseconds.
        aligned, misaligned: number of containers (of pods if that is the scope) that had to get everything from one
            NUMA node, and did or did not.
    """

    def __init__(self, policy: TopologyPolicy, *, clock: Clock) -> None:
        self.policy = policy
        self.requests = self.errors = 0
        self.durations = Histogram(DURATIONS_MS)
        self.aligned = self.misaligned = 0
        self._clock = clock
        self._lanes = Lanes()
        self._affinities: dict[PodUid, dict[ContainerName, Mask]] = {}

    async def admit(self, pod: PodRequest, parts: Sequence[PodPart]) -> None:
        """Give every container of the pod what it asks for, from all ``parts``.

        Raises:
            TopologyMisaligned: the policy forbids it.
            AdmissionError: a part cannot give it. The caller has to take back what other parts gave.
        """
        self.requests += 1
        began = self._clock.monotonic()
        try:
            for together in self._groups(parts):
                async with self._lanes.enter_all(part.name for part in together):
                    await self._allocate(pod, together)
        except AdmissionError:
            self.errors += self.policy.kind is not PolicyKind.NONE
            raise
        finally:
            self.durations.observe(int(1000 * (self._clock.monotonic() - began)))

    async def supply(self, pod: PodRequest, parts: Sequence[PodPart]) -> None:
        """Give containers of an admitted pod what they lack, along the affinity they were admitted with.

        Raises:
            AdmissionError: as for `admit`.
        """
        affinities = self._affinities.get(pod.uid, {})
        for part in parts:
            async with self._lanes.enter(part.name):
                for container in pod.containers:
                    await part.allocate(container, affinities.get(container.name, ANYWHERE))

    def forget(self, pod: PodUid) -> None:
        """Drop the affinities of a pod that has ended. Harmless twice.

        A kubelet forgets a container's affinity sooner: with the last instance made since the kubelet started. The
        difference cannot be observed: an instance is made here only when it has all its devices, and keeps them, so
        `supply` is never called for an instance made since we started.
        """
        self._affinities.pop(pod, None)

    def _groups(self, parts: Sequence[PodPart]) -> Iterable[Sequence[PodPart]]:
        """Group the parts that are admitted together; without a policy, each part is admitted and waits on its own."""
        return [[part] for part in parts] if self.policy.kind is PolicyKind.NONE else [parts]

    async def _allocate(self, pod: PodRequest, parts: Sequence[PodPart]) -> None:
        affinities = self._affinities.setdefault(pod.uid, {})
        whole_pod = (
            self._affinity([part.pod_hints() for part in parts]) if self._looks_at(TopologyScope.POD) else ANYWHERE
        )
        for container in pod.containers:
            affinity = whole_pod
            if self._looks_at(TopologyScope.CONTAINER):
                affinity = self._affinity([part.container_hints(container) for part in parts])
                logger.debug("pod %s, container %s: NUMA nodes %s", pod.uid, container.name, [*nodes_of(affinity)])
            affinities[container.name] = affinity
            for part in parts:
                await part.allocate(container, affinity)
            self.aligned += self._guarantees_alignment and self._looks_at(TopologyScope.CONTAINER)
        self.aligned += self._guarantees_alignment and self._looks_at(TopologyScope.POD)

    @property
    def _guarantees_alignment(self) -> bool:
        return self.policy.kind is PolicyKind.SINGLE_NUMA_NODE

    def _looks_at(self, scope: TopologyScope) -> bool:
        return self.policy.kind is not PolicyKind.NONE and self.policy.scope is scope

    def _affinity(self, hints: Iterable[Hints]) -> Mask:
        verdict = self.policy.decide(hints)
        if not verdict.is_admitted:
            self.misaligned += self._guarantees_alignment
            raise TopologyMisaligned
        return ANYWHERE if verdict.affinity.mask is None else verdict.affinity.mask
