"""The PodResources service: how often clients may ask, and about which pods.

In a kubelet, List also drops the assignments of pods that have ended. Here a pod's end frees its devices
(`DeviceManager.release_pod`), so reading changes nothing. Answers are sorted where a kubelet's order is random.
Source: kubelet 1.36 ``pkg/kubelet/apis/podresources/server_v1.go``, ``server_v1alpha1.go``; spec 8.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from pathlib import Path
from typing import Final, Protocol

from plugbay.errors import PathUnusable, RpcCode, RpcFailed
from plugbay.manager.gates import DEFAULT_GATES, FeatureGates, Gate
from plugbay.manager.serving.reader import PodResourcesReader
from plugbay.model.ids import PodUid
from plugbay.model.podresources import AllocatableResources, PodResources
from plugbay.model.requests import PodRequest
from plugbay.ops.clock import Clock
from plugbay.ops.rate_limit import TokenBucket
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.podresources import pod_resources_handlers

CALLS_PER_S: Final = 100
CALLS_AT_ONCE: Final = 10
"""A kubelet's limits, for all clients and both versions together (``podresources/grpc/ratelimit.go``)."""
_DIRECTORY_MODE: Final = 0o750
_MAX_CALLS: Final = 1000
"""Calls of one client at a time: more than the rate limit allows, so that it is the rate limit that refuses calls."""
_ACTIVE_ONLY: Final = Gate.KUBELET_POD_RESOURCES_LIST_USE_ACTIVE_PODS


class PodSource(Protocol):
    """Knows the pods of the node; each pod appears once."""

    def active_pods(self) -> Iterable[PodRequest]:
        """The pods that the node has admitted and that have not ended; a deleted pod is active until it has stopped."""
        ...

    def all_pods(self) -> Iterable[PodRequest]:
        """The active pods, and those that have ended or were refused, as long as the node knows them."""
        ...


class AdmittedPods:
    """The pods that a manager has admitted and not released: a `PodSource` for use without a node."""

    def __init__(self) -> None:
        self._pods: dict[PodUid, PodRequest] = {}

    def add(self, pod: PodRequest) -> None:
        self._pods[pod.uid] = pod

    def remove(self, pod: PodUid) -> None:
        """Harmless for a pod that is not there."""
        self._pods.pop(pod, None)

    def get(self, pod: PodUid) -> PodRequest | None:
        return self._pods.get(pod)

    def active_pods(self) -> Collection[PodRequest]:
        return tuple(self._pods.values())

    def all_pods(self) -> Collection[PodRequest]:
        return self.active_pods()


class Method(Enum):
    """A method of the service; the value is the end of the kubelet's metric names."""

    LIST = "list"
    GET = "get"
    GET_ALLOCATABLE = "get_allocatable"


_SERVES_ALL: Final[Mapping[Method, RpcFailed]] = {}


class PodResourcesVersion(Enum):
    """A version of the service; its value is the kubelet's metric label ``server_api_version``."""

    V1 = "v1"
    V1ALPHA1 = "v1alpha1"


class CallCounts:
    """Calls so far, by version and method; calls over the rate limit do not count.

    A kubelet's ``…_requests_total`` is the sum over the methods; v1alpha1 appears in that sum only.
    """

    def __init__(self) -> None:
        self.requests: Counter[tuple[PodResourcesVersion, Method]] = Counter()
        self.errors: Counter[tuple[PodResourcesVersion, Method]] = Counter()


@asynccontextmanager
async def serve_pod_resources(
    socket: Path,
    reader: PodResourcesReader,
    pods: PodSource,
    *,
    clock: Clock,
    gates: FeatureGates = DEFAULT_GATES,
    refusals: Mapping[Method, RpcFailed] = _SERVES_ALL,
) -> AsyncIterator[CallCounts]:
    """Serve both versions on ``socket`` until the block ends. A file left there is removed, as by a kubelet.

    Args:
        gates: without ``KubeletPodResourcesListUseActivePods``, List of v1 also returns pods that have ended.
        refusals: the methods of v1 that are not served, each with the error that it is answered with.

    Raises:
        PathTooLong, PathUnusable: the socket cannot be served.
    """
    await asyncio.to_thread(_prepare, socket)
    listed = pods.active_pods if gates.is_enabled(_ACTIVE_ONLY) else pods.all_pods
    service = _Service(reader, pods, clock, listed, refusals)
    async with serve_grpc(socket, pod_resources_handlers(service), max_calls=_MAX_CALLS):
        yield service.counts


class _Service:
    """Answers the calls: limits and counts them, and builds the answers."""

    def __init__(
        self,
        reader: PodResourcesReader,
        pods: PodSource,
        clock: Clock,
        listed: Callable[[], Iterable[PodRequest]],
        refusals: Mapping[Method, RpcFailed],
    ) -> None:
        self._reader = reader
        self._pods = pods
        self._listed = listed
        self._refusals = refusals
        self._bucket = TokenBucket(rate=CALLS_PER_S, burst=CALLS_AT_ONCE, monotonic=clock.monotonic)
        self.counts = CallCounts()

    def list_v1(self) -> Sequence[PodResources]:
        self._enter(PodResourcesVersion.V1, Method.LIST)
        return [self._reader.pod_v1(pod) for pod in _sorted(self._listed())]

    def get_v1(self, namespace: str, name: str) -> PodResources:
        self._enter(PodResourcesVersion.V1, Method.GET)
        for pod in self._pods.active_pods():
            if (pod.namespace, pod.name) == (namespace, name):
                return self._reader.pod_v1(pod)
        self.counts.errors[PodResourcesVersion.V1, Method.GET] += 1
        raise RpcFailed(RpcCode.UNKNOWN, f"pod {name} in namespace {namespace} not found")

    def allocatable_v1(self) -> AllocatableResources:
        self._enter(PodResourcesVersion.V1, Method.GET_ALLOCATABLE)
        return self._reader.allocatable()

    def list_v1alpha1(self) -> Sequence[PodResources]:
        self._enter(PodResourcesVersion.V1ALPHA1, Method.LIST)
        return [self._reader.pod_v1alpha1(pod) for pod in _sorted(self._pods.all_pods())]

    def _enter(self, version: PodResourcesVersion, method: Method) -> None:
        if not self._bucket.take():
            raise RpcFailed(RpcCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        self.counts.requests[version, method] += 1
        if version is PodResourcesVersion.V1 and (refusal := self._refusals.get(method)) is not None:
            self.counts.errors[version, method] += 1
            raise refusal


def _sorted(pods: Iterable[PodRequest]) -> list[PodRequest]:
    return sorted(pods, key=lambda pod: (pod.namespace, pod.name, pod.uid))


def _prepare(socket: Path) -> None:
    try:
        socket.parent.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        socket.unlink(missing_ok=True)
    except OSError as error:
        raise PathUnusable(str(socket), f"cannot listen here: {error.strerror or error}") from error
