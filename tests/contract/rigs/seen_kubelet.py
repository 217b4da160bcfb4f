"""The directory of a stock kubelet as an onlooker finds it: checkpoint, directories of pods, sockets, PodResources."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from plugbay.errors import RpcCode, RpcFailed
from plugbay.kubelet.checkpoint import encode
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry
from plugbay.model.edits import ContainerEdits, DeviceNode
from plugbay.model.ids import ContainerName, DeviceId, ResourceName
from plugbay.model.podresources import (
    AllocatableResources,
    ContainerDevices,
    ContainerMemory,
    ContainerResources,
    PodResources,
)
from plugbay.observe.places import NodePlaces, places_of
from plugbay.ops.listening import Address
from plugbay.wire.convert import edits_to_pb
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.podresources import pod_resources_handlers

GPU = "example.com/gpu"


@dataclass(slots=True)
class SeenKubelet:
    """A kubelet's files below ``base``, and what its service answers.

    Attributes:
        asked: the calls that came.
        refusal: answers every List in place of pods.
    """

    base: Path
    pods: list[PodResources] = field(default_factory=list)
    devices: list[ContainerDevices] = field(default_factory=list)
    cpus: tuple[int, ...] = (0, 1, 2, 3)
    memory: tuple[ContainerMemory, ...] = ()
    asked: list[str] = field(default_factory=list)
    refusal: RpcFailed | None = None

    def __post_init__(self) -> None:
        for path in (self.device_plugins, self.root / "pods", self.root / "pod-resources", self.logs):
            path.mkdir(parents=True)

    @property
    def root(self) -> Path:
        return self.base / "k"

    @property
    def device_plugins(self) -> Path:
        return self.root / "device-plugins"

    @property
    def logs(self) -> Path:
        return self.base / "var/log/pods"

    @property
    def argv(self) -> tuple[str, ...]:
        return "--root", str(self.root), "--host", str(self.base)

    def places(self, *pages: Address) -> NodePlaces:
        return places_of(self.root, host=self.base, is_own=False, status_pages=pages)

    def write_checkpoint(self, entries: Sequence[PodDevicesEntry], healthy: Sequence[str], *, name: str = GPU) -> None:
        """As a kubelet does it: the old file is replaced."""
        written = self.base / "checkpoint.tmp"
        written.write_bytes(encode(CheckpointData(tuple(entries), {name: tuple(healthy)})))
        os.replace(written, self.device_plugins / "kubelet_internal_checkpoint")

    def add_pod(self, uid: str, name: str, namespace: str = "default") -> None:
        """Its directories, by which names are known."""
        (self.root / "pods" / uid / "volumes").mkdir(parents=True)
        (self.logs / f"{namespace}_{name}_{uid}").mkdir()

    def list_v1(self) -> Sequence[PodResources]:
        self.asked.append("List")
        if self.refusal is not None:
            raise self.refusal
        return self.pods

    def get_v1(self, namespace: str, name: str) -> PodResources:
        self.asked.append("Get")
        for pod in self.pods:
            if (pod.namespace, pod.name) == (namespace, name):
                return pod
        raise RpcFailed(RpcCode.UNKNOWN, f"pod {name} in namespace {namespace} not found")

    def allocatable_v1(self) -> AllocatableResources:
        self.asked.append("GetAllocatableResources")
        return AllocatableResources(tuple(self.devices), self.cpus, self.memory)

    def list_v1alpha1(self) -> Sequence[PodResources]:
        return self.list_v1()

    @asynccontextmanager
    async def answering(self) -> AsyncIterator[None]:
        async with serve_grpc(self.root / "pod-resources/kubelet.sock", pod_resources_handlers(self)):
            yield

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """A process listens and does not answer."""
        with listening(self.root / "pod-resources/kubelet.sock"):
            yield


@contextmanager
def listening(path: Path) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        yield
    path.unlink()


def entry(uid: str, container: str, *ids: str, resource: str = GPU) -> PodDevicesEntry:
    """An entry whose plugin answered with a device node for each device."""
    nodes = tuple(DeviceNode(f"/dev/{each}") for each in ids)
    response = edits_to_pb(ContainerEdits(device_nodes=nodes)).SerializeToString()
    return PodDevicesEntry(uid, container, resource, {0: ids}, response)


def holding(name: str, container: str, *ids: str, namespace: str = "default", resource: str = GPU) -> PodResources:
    devices = tuple(ContainerDevices(ResourceName(resource), (DeviceId(each),), (0,)) for each in ids)
    return PodResources(namespace, name, (ContainerResources(ContainerName(container), devices),))


def offered(*ids: str, resource: str = GPU) -> list[ContainerDevices]:
    return [ContainerDevices(ResourceName(resource), (DeviceId(each),), (0,)) for each in ids]
