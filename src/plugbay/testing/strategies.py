"""Hypothesis strategies for devices, their lists, pods and NUMA topologies: public, and the only module that needs it.

Every value is legal: a plugin may offer it, a kubelet may ask for it. Values shrink towards few plain devices and one
container.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from hypothesis import strategies as st

from plugbay.model.devices import Device
from plugbay.model.edits import NO_EDITS, ContainerEdits, DeviceNode, Mount
from plugbay.model.health import HEALTHY, Health, unhealthy
from plugbay.model.ids import MAX_DEVICE_ID_BYTES, ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest
from plugbay.model.topology import NumaTopology

__all__ = [
    "container_edits",
    "device_ids",
    "device_list_sequences",
    "device_lists",
    "devices",
    "healths",
    "numa_topologies",
    "pod_manifests",
    "pod_requests",
    "resource_names",
]

_LABEL_EDGE: Final = string.ascii_lowercase + string.digits
_NAME_EDGE: Final = string.ascii_letters + string.digits
_NEAR: Final = 10
"""The distance of a NUMA node to itself, as firmware and Linux have it."""
_FARTHEST: Final = 254
"""The largest distance; 255 says that a node cannot be reached."""


@cache
def resource_names() -> st.SearchStrategy[ResourceName]:
    """Names such as ``a.example.com/Card_1``, which a kubelet registers."""
    domain = st.lists(_word(_LABEL_EDGE, "-", 8), min_size=1, max_size=3).map(".".join)
    return st.builds(
        lambda prefix, kind: ResourceName(f"{prefix}.example.com/{kind}"), domain, _word(_NAME_EDGE, "-_.", 12)
    )


@cache
def device_ids() -> st.SearchStrategy[DeviceId]:
    """IDs as plugins give them: of 1 to 63 bytes, now and then with spaces, commas, slashes or letters beyond ASCII."""
    plain = st.from_regex(r"[a-z]{1,4}[0-9]{1,3}", fullmatch=True)
    odd = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")) | st.just(" "), min_size=1, max_size=20)
    longest = st.integers(1, MAX_DEVICE_ID_BYTES).map(lambda size: "x" * size)
    fits = (plain | odd | longest).filter(lambda text: len(text.encode()) <= MAX_DEVICE_ID_BYTES)
    return fits.map(DeviceId)


@cache
def healths() -> st.SearchStrategy[Health]:
    """Healthy, or unhealthy with or without a reason and a message."""
    reasons = st.just("") | st.from_regex(r"[A-Z][a-z]{1,9}([A-Z][a-z]{1,9})?", fullmatch=True)
    return st.just(HEALTHY) | st.builds(unhealthy, reasons, st.text(max_size=20))


@cache
def container_edits() -> st.SearchStrategy[ContainerEdits]:
    """Edits of a container; paths are absolute and need not exist."""
    paths = st.lists(_word(_NAME_EDGE, "-_.", 8), min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))
    values = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
    names = st.from_regex(r"[A-Z_][A-Z0-9_]{0,12}", fullmatch=True)
    keys = _word(_LABEL_EDGE, "-", 8).map(lambda name: f"example.com/{name}")
    permissions = st.sampled_from(["r", "w", "rw", "rwm", "mrw"])
    return st.builds(
        ContainerEdits,
        env=st.dictionaries(names, values, max_size=3),
        mounts=st.lists(
            st.builds(Mount, paths, container_path=paths, read_only=st.booleans()),
            max_size=2,
            unique_by=lambda mount: mount.container_path,
        ),
        device_nodes=st.lists(
            st.builds(DeviceNode, paths, container_path=paths, permissions=permissions),
            max_size=2,
            unique_by=lambda node: node.container_path,
        ),
        annotations=st.dictionaries(keys, values, max_size=2),
        cdi_devices=st.lists(
            _word(_NAME_EDGE, "-_.", 8).map(lambda name: f"example.com/card={name}"), max_size=2, unique=True
        ),
    )


@st.composite
def devices(draw: st.DrawFn, *, ids: st.SearchStrategy[DeviceId] | None = None, numa_nodes: int = 2) -> Device:
    """One device.

    Args:
        numa_nodes: the number of the machine's NUMA nodes; a device lies on some of them, or does not tell.
    """
    edits = draw(st.just(NO_EDITS) | container_edits())
    return Device(
        draw(device_ids() if ids is None else ids),
        health=draw(healths()),
        numa_nodes=draw(st.sets(st.integers(0, numa_nodes - 1), max_size=numa_nodes)) if numa_nodes else (),
        env=edits.env,
        mounts=edits.mounts,
        device_nodes=edits.device_nodes,
        annotations=edits.annotations,
        cdi_devices=edits.cdi_devices,
    )


def device_lists(*, min_size: int = 0, max_size: int = 8, numa_nodes: int = 2) -> st.SearchStrategy[tuple[Device, ...]]:
    """Lists of a resource's devices, as ListAndWatch sends them: IDs are unique, the order means nothing."""
    return st.lists(
        devices(numa_nodes=numa_nodes), min_size=min_size, max_size=max_size, unique_by=lambda device: device.id
    ).map(tuple)


@st.composite
def device_list_sequences(
    draw: st.DrawFn, *, max_lists: int = 6, numa_nodes: int = 2
) -> tuple[tuple[Device, ...], ...]:
    """Lists that one plugin sends one after the other: devices fail and recover, go and come back, new ones come."""
    everything = draw(device_lists(min_size=1, numa_nodes=numa_nodes))
    sequence: list[tuple[Device, ...]] = []
    for _ in range(draw(st.integers(1, max_lists))):
        present = [device for device in everything if draw(st.booleans())]
        sequence.append(tuple(device.with_health(draw(healths())) for device in present))
    return tuple(sequence)


@st.composite
def numa_topologies(draw: st.DrawFn, *, max_nodes: int = 8) -> NumaTopology:
    """Machines of 1 to ``max_nodes`` NUMA nodes, numbered with gaps now and then, with symmetric distances or none."""
    numbers = st.sets(st.integers(0, max_nodes + 2), min_size=1, max_size=max_nodes)
    nodes = tuple(sorted(draw(st.integers(1, max_nodes).map(range).map(set) | numbers)))
    if not draw(st.booleans()):
        return NumaTopology(nodes)
    distances = {node: {node: _NEAR} for node in nodes}
    for index, one in enumerate(nodes):
        for other in nodes[:index]:
            distances[one][other] = distances[other][one] = draw(st.integers(_NEAR, _FARTHEST))
    return NumaTopology(nodes, {node: dict(sorted(others.items())) for node, others in distances.items()})


@st.composite
def pod_requests(
    draw: st.DrawFn, resources: Sequence[str] = ("example.com/card",), *, most: int = 3, max_containers: int = 4
) -> PodRequest:
    """Pods with init containers, sidecars and containers that ask for devices; each pod has a UID and name of its own.

    Args:
        resources: the resources to ask for.
        most: the most devices of a resource that a container asks for.
    """
    amounts = st.dictionaries(st.sampled_from([ResourceName(name) for name in resources]), st.integers(0, most))
    earlier = draw(st.lists(st.sampled_from([ContainerKind.INIT, ContainerKind.SIDECAR]), max_size=max_containers - 1))
    apps = [ContainerKind.APP] * draw(st.integers(1, max_containers - len(earlier)))
    uid = draw(st.uuids(version=4))
    return PodRequest(
        PodUid(str(uid)),
        draw(st.sampled_from(["default", "kube-system"])),
        f"pod-{uid.hex[:8]}",
        tuple(
            ContainerRequest(ContainerName(f"c{index}"), kind, draw(amounts))
            for index, kind in enumerate((*earlier, *apps))
        ),
    )


def pod_manifests(
    resources: Sequence[str] = ("example.com/card",), *, most: int = 3, max_containers: int = 4
) -> st.SearchStrategy[dict[str, Any]]:
    """The pods of `pod_requests` as manifests, which every Kubernetes client can create."""
    return pod_requests(resources, most=most, max_containers=max_containers).map(_manifest)


def _manifest(pod: PodRequest) -> dict[str, Any]:
    apps = [_container(each) for each in pod.containers if each.kind is ContainerKind.APP]
    earlier = [_container(each) for each in pod.containers if each.kind is not ContainerKind.APP]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "spec": {"containers": apps} | ({"initContainers": earlier} if earlier else {}),
    }


def _container(container: ContainerRequest) -> Mapping[str, Any]:
    limits = {name: str(amount) for name, amount in container.limits.items()}
    restarts = {"restartPolicy": "Always"} if container.kind is ContainerKind.SIDECAR else {}
    return {"name": container.name, "image": "example.com/probe:1", "resources": {"limits": limits}} | restarts


def _word(edge: str, inside: str, longest: int) -> st.SearchStrategy[str]:
    """Words of ``edge`` that may have ``inside`` between its first and last character."""
    middle = st.text(edge + inside, max_size=longest - 2)
    return st.sampled_from(edge) | st.builds("{}{}{}".format, st.sampled_from(edge), middle, st.sampled_from(edge))
