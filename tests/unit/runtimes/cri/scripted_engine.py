"""A container engine of the tests' own: it answers CRI on a real socket, keeps state, runs nothing, and can fail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from google.protobuf.message import Message

from plugbay.errors import RpcCode, RpcFailed
from plugbay.wire.cri import IMAGES, RUNTIME
from plugbay.wire.generated import cri_v1_pb2 as v1
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.grpc.services import Service, Unary
from plugbay.wire.handlers import unary

SECOND: Final = 10**9
_IMAGE_CALLS: Final = ("ImageStatus", "PullImage")


class ScriptedEngine:
    """
    Attributes:
        calls: what was asked, in order.
        failures: of a method, what it says instead of answering, the next one first; None answers.
        held: methods that answer when the event is set.
        lacking: methods this engine is too old for.
        ips: of the next sandbox.
        network_problem: why it can give sandboxes no network; empty if it can.
        config: what it tells of its settings.
        driver: what it answers to RuntimeConfig; None says nothing of Linux.
        stops_unknown: whether stopping a container that is not there goes well.
        stream_url: where it says that it streams.
        exits: of containers that shall end as soon as they start, by name: exit code and reason.
    """

    def __init__(self, name: str = "containerd", version: str = "1.6.20") -> None:
        self.name, self.version = name, version
        self.calls: list[tuple[str, Any]] = []
        self.failures: dict[str, list[RpcFailed | None]] = {}
        self.held: dict[str, asyncio.Event] = {}
        self.lacking = {"RuntimeConfig"}
        self.driver: Any = v1.CGROUPFS
        self.ips = ["10.0.0.1", "fd00::1"]
        self.network_problem = ""
        self.config: object = {}
        self.images = {"img:1": v1.Image(id="sha256:1")}
        self.pullable: set[str] = set()
        self.passwords: dict[str, str] = {}
        self.sandboxes: dict[str, v1.PodSandboxStatus] = {}
        self.containers: dict[str, v1.ContainerStatus] = {}
        self.exits: dict[str, tuple[int, str]] = {}
        self.stops_unknown = False
        self.stream_url = "http://127.0.0.1:1/portforward/none"
        self._sandbox_of: dict[str, str] = {}
        self._log_root: dict[str, str] = {}
        self._clock = SECOND

    def asked(self, method: str) -> list[Any]:
        """The requests of one method."""
        return [request for name, request in self.calls if name == method]

    @asynccontextmanager
    async def serve(self, socket: Path) -> AsyncIterator[None]:
        handlers = []
        for service, are_images in ((RUNTIME, False), (IMAGES, True)):
            names = [each for each in vars(type(self)) if each[0].isupper() and (each in _IMAGE_CALLS) is are_images]
            methods = {each: self._handler(each) for each in names if each not in self.lacking}
            handlers.append(Service(service, methods))
        async with serve_grpc(socket, handlers):
            yield

    def _handler(self, method: str) -> Unary:
        answer: Callable[[Any], Awaitable[Message]] = getattr(self, method)

        async def respond(request: Message) -> Message:
            self.calls.append((method, request))
            if (script := self.failures.get(method)) and (failure := script.pop(0)) is not None:
                raise failure
            if method in self.held:
                await self.held[method].wait()
            return await answer(request)

        return unary(getattr(v1, f"{method}Request"), respond)

    def kill_sandbox(self, sandbox: str) -> None:
        """Its first process died."""
        self.sandboxes[sandbox].state = v1.SANDBOX_NOTREADY

    def _now(self) -> int:
        self._clock += SECOND
        return self._clock

    # --- the engine -------------------------------------------------------------------------------------------------

    async def Version(self, _: v1.VersionRequest) -> v1.VersionResponse:
        return v1.VersionResponse(
            version="0.1.0", runtime_name=self.name, runtime_version=self.version, runtime_api_version="v1"
        )

    async def Status(self, _: v1.StatusRequest) -> v1.StatusResponse:
        network = v1.RuntimeCondition(
            type="NetworkReady", status=not self.network_problem, message=self.network_problem
        )
        return v1.StatusResponse(
            status=v1.RuntimeStatus(conditions=[network]), info={"config": json.dumps(self.config)}
        )

    async def RuntimeConfig(self, _: v1.RuntimeConfigRequest) -> v1.RuntimeConfigResponse:
        told = None if self.driver is None else v1.LinuxRuntimeConfiguration(cgroup_driver=self.driver)
        return v1.RuntimeConfigResponse(linux=told)

    # --- sandboxes --------------------------------------------------------------------------------------------------

    async def RunPodSandbox(self, request: v1.RunPodSandboxRequest) -> v1.RunPodSandboxResponse:
        config = request.config
        sandbox = f"s{len(self._log_root)}"
        network = v1.PodSandboxNetworkStatus(
            ip=self.ips[0], additional_ips=[v1.PodIP(ip=each) for each in self.ips[1:]]
        )
        self.sandboxes[sandbox] = v1.PodSandboxStatus(
            id=sandbox,
            metadata=config.metadata,
            state=v1.SANDBOX_READY,
            created_at=self._now(),
            network=network,
            labels=config.labels,
        )
        self._log_root[sandbox] = config.log_directory
        return v1.RunPodSandboxResponse(pod_sandbox_id=sandbox)

    async def StopPodSandbox(self, request: v1.StopPodSandboxRequest) -> v1.StopPodSandboxResponse:
        self._sandbox(request.pod_sandbox_id).state = v1.SANDBOX_NOTREADY
        return v1.StopPodSandboxResponse()

    async def RemovePodSandbox(self, request: v1.RemovePodSandboxRequest) -> v1.RemovePodSandboxResponse:
        self.sandboxes.pop(request.pod_sandbox_id, None)
        for each in [each for each, of in self._sandbox_of.items() if of == request.pod_sandbox_id]:
            self.containers.pop(each, None)
        return v1.RemovePodSandboxResponse()

    async def PodSandboxStatus(self, request: v1.PodSandboxStatusRequest) -> v1.PodSandboxStatusResponse:
        return v1.PodSandboxStatusResponse(status=self._sandbox(request.pod_sandbox_id))

    async def ListPodSandbox(self, request: v1.ListPodSandboxRequest) -> v1.ListPodSandboxResponse:
        items = [
            v1.PodSandbox(
                id=each.id, metadata=each.metadata, state=each.state, created_at=each.created_at, labels=each.labels
            )
            for each in self.sandboxes.values()
            if request.filter.label_selector.items() <= each.labels.items()
        ]
        return v1.ListPodSandboxResponse(items=items)

    def _sandbox(self, sandbox: str) -> v1.PodSandboxStatus:
        if sandbox not in self.sandboxes:
            raise RpcFailed(RpcCode.NOT_FOUND, f'an error occurred when try to find sandbox "{sandbox}": not found')
        return self.sandboxes[sandbox]

    # --- containers -------------------------------------------------------------------------------------------------

    async def CreateContainer(self, request: v1.CreateContainerRequest) -> v1.CreateContainerResponse:
        config = request.config
        container = f"c{len(self._sandbox_of)}"
        self._sandbox_of[container] = request.pod_sandbox_id
        self.containers[container] = v1.ContainerStatus(
            id=container,
            metadata=config.metadata,
            state=v1.CONTAINER_CREATED,
            created_at=self._now(),
            labels=config.labels,
            annotations=config.annotations,
            mounts=config.mounts,
            log_path=f"{self._log_root[request.pod_sandbox_id]}/{config.log_path}",
            image_ref=config.image.image,
        )
        return v1.CreateContainerResponse(container_id=container)

    async def StartContainer(self, request: v1.StartContainerRequest) -> v1.StartContainerResponse:
        status = self._container(request.container_id)
        status.state, status.started_at = v1.CONTAINER_RUNNING, self._now()
        if status.metadata.name in self.exits:
            self.end(request.container_id, *self.exits[status.metadata.name])
        return v1.StartContainerResponse()

    def end(self, container: str, exit_code: int, reason: str, message: str = "") -> None:
        """A container ends."""
        status = self.containers[container]
        status.state, status.finished_at = v1.CONTAINER_EXITED, self._now()
        status.exit_code, status.reason, status.message = exit_code, reason, message

    async def StopContainer(self, request: v1.StopContainerRequest) -> v1.StopContainerResponse:
        if request.container_id not in self.containers and self.stops_unknown:
            return v1.StopContainerResponse()
        if self._container(request.container_id).state == v1.CONTAINER_RUNNING:
            self.end(request.container_id, 137, "Error")
        return v1.StopContainerResponse()

    async def RemoveContainer(self, request: v1.RemoveContainerRequest) -> v1.RemoveContainerResponse:
        self.containers.pop(request.container_id, None)
        return v1.RemoveContainerResponse()

    async def ListContainers(self, request: v1.ListContainersRequest) -> v1.ListContainersResponse:
        containers = [
            v1.Container(
                id=each.id,
                pod_sandbox_id=self._sandbox_of[each.id],
                metadata=each.metadata,
                state=each.state,
                created_at=each.created_at,
                labels=each.labels,
            )
            for each in self.containers.values()
            if request.filter.label_selector.items() <= each.labels.items()
        ]
        return v1.ListContainersResponse(containers=containers)

    async def ContainerStatus(self, request: v1.ContainerStatusRequest) -> v1.ContainerStatusResponse:
        return v1.ContainerStatusResponse(status=self._container(request.container_id))

    async def ReopenContainerLog(self, request: v1.ReopenContainerLogRequest) -> v1.ReopenContainerLogResponse:
        Path(self._container(request.container_id).log_path).touch()
        return v1.ReopenContainerLogResponse()

    async def ExecSync(self, request: v1.ExecSyncRequest) -> v1.ExecSyncResponse:
        self._container(request.container_id)
        return v1.ExecSyncResponse(stdout=b"out", stderr=b"err", exit_code=7)

    async def Exec(self, request: v1.ExecRequest) -> v1.ExecResponse:
        self._container(request.container_id)
        return v1.ExecResponse(url="http://127.0.0.1:1/exec/none")

    async def Attach(self, request: v1.AttachRequest) -> v1.AttachResponse:
        self._container(request.container_id)
        return v1.AttachResponse(url="http://127.0.0.1:1/attach/none")

    async def PortForward(self, request: v1.PortForwardRequest) -> v1.PortForwardResponse:
        return v1.PortForwardResponse(url=self.stream_url)

    def _container(self, container: str) -> v1.ContainerStatus:
        if container not in self.containers:
            raise RpcFailed(RpcCode.NOT_FOUND, f'an error occurred when try to find container "{container}": not found')
        return self.containers[container]

    # --- images -----------------------------------------------------------------------------------------------------

    async def ImageStatus(self, request: v1.ImageStatusRequest) -> v1.ImageStatusResponse:
        return v1.ImageStatusResponse(image=self.images.get(request.image.image))

    async def PullImage(self, request: v1.PullImageRequest) -> v1.PullImageResponse:
        name = request.image.image
        if (wanted := self.passwords.get(name)) is not None and request.auth.password != wanted:
            raise RpcFailed(RpcCode.UNKNOWN, f'failed to pull and unpack image "{name}": 401 Unauthorized')
        if name not in self.pullable:
            raise RpcFailed(RpcCode.NOT_FOUND, f'failed to pull and unpack image "{name}": not found')
        self.images[name] = v1.Image(id=f"sha256:{name}")
        return v1.PullImageResponse(image_ref=self.images[name].id)
