"""A resource manager beside that of devices, as others could write one."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from plugbay.errors import AdmissionError
from plugbay.manager.admission.topology import PodPart
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.requests import ContainerRequest, PodRequest
from plugbay.topology.hints import Hint, Hints
from plugbay.topology.masks import Mask, mask_of


class Cores:
    """A CPU manager in little: one core on each node, and a pod of several containers gets one for each."""

    def __init__(self, nodes: Sequence[int], *, answer: AdmissionError | None = None) -> None:
        self.free = set(nodes)
        self.given: dict[PodUid, dict[ContainerName, int]] = {}
        self.asked: list[str] = []
        self._answer = answer

    def parts(self, pod: PodRequest, running: Collection[ContainerName]) -> Sequence[PodPart]:
        return [_CoresPart(self, pod.uid)]

    def release(self, pod: PodUid) -> None:
        self.free.update(self.given.pop(pod, {}).values())

    def take(self, pod: PodUid, container: ContainerName, affinity: Mask) -> None:
        if self._answer is not None:
            raise self._answer
        core = next(core for core in sorted(self.free) if not affinity or affinity >> core & 1)
        self.free.remove(core)
        self.given.setdefault(pod, {})[container] = core


class _CoresPart:
    name = "cpu"

    def __init__(self, cores: Cores, pod: PodUid) -> None:
        self._cores = cores
        self._pod = pod

    def container_hints(self, container: ContainerRequest) -> Hints:
        self._cores.asked.append(container.name)
        return tuple(Hint(mask_of([core]), True) for core in sorted(self._cores.free))

    def pod_hints(self) -> Hints:
        return (Hint(mask_of(self._cores.free), True),)

    async def allocate(self, container: ContainerRequest, affinity: Mask) -> None:
        self._cores.take(self._pod, container.name, affinity)
