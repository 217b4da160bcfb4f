"""``runtime.v1.RuntimeService`` and ``runtime.v1.ImageService``: our calls of a container engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from google.protobuf.message import Message

from plugbay.errors import RpcCode, RpcFailed
from plugbay.model.cri import (
    CgroupDriver,
    ContainerConfig,
    ContainerStatus,
    EngineStatus,
    EngineVersion,
    ExecResult,
    Image,
    ListedContainer,
    NamespaceMode,
    Sandbox,
    SandboxConfig,
    SandboxStatus,
)
from plugbay.model.registry_logins import RegistryLogin
from plugbay.wire.calls import call
from plugbay.wire.cri_messages import (
    container_to_v1,
    engine_status_from_v1,
    image_from_v1,
    listed_from_v1,
    sandbox_from_v1,
    sandbox_status_from_v1,
    sandbox_to_v1,
    status_from_v1,
)
from plugbay.wire.generated import cri_v1_pb2 as v1
from plugbay.wire.grpc.channel import Channel

RUNTIME: Final = "runtime.v1.RuntimeService"
IMAGES: Final = "runtime.v1.ImageService"
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
"""A kubelet's limit: an engine cuts the output of a command there."""
CALL_S: Final = 120.0
"""A kubelet's deadline; making a sandbox gets twice as long, and pulling an image has none."""

_Answer = TypeVar("_Answer", bound=Message)
_NOT_YET: Final = "server is not initialized yet"
"""The message, with the code Unknown, of a containerd that still looks for the containers of its previous run."""


class CriClient:
    """A connection to an engine's socket. It connects when first used, and again after the engine was restarted.

    Calls raise `RpcFailed`; see `is_away`.
    """

    def __init__(self, socket: Path) -> None:
        self._channel = Channel(socket, max_message_bytes=MAX_ANSWER_BYTES)

    async def connect(self, timeout_s: float) -> None:
        """Connect now, and try again while no server listens yet.

        Raises:
            TimeoutError: no server answered in time.
        """
        await self._channel.connect(timeout_s)

    @property
    def is_connected(self) -> bool:
        return self._channel.is_connected

    async def until_lost(self) -> None:
        """Wait until the connection is lost. An idle connection may be lost without a fault."""
        await self._channel.until_lost()

    async def close(self) -> None:
        """Close the connection; calls under way fail."""
        await self._channel.close()

    # --- the engine -------------------------------------------------------------------------------------------------

    async def version(self) -> EngineVersion:
        answer = await self._runtime("Version", v1.VersionRequest(), v1.VersionResponse)
        return EngineVersion(answer.runtime_name, answer.runtime_version)

    async def status(self) -> EngineStatus:
        return engine_status_from_v1(await self._runtime("Status", v1.StatusRequest(verbose=True), v1.StatusResponse))

    async def cgroup_driver(self) -> CgroupDriver | None:
        """The engine's answer; None if the engine is too old to give one, or gives none."""
        try:
            answer = await self._runtime("RuntimeConfig", v1.RuntimeConfigRequest(), v1.RuntimeConfigResponse)
        except RpcFailed as error:
            if error.code is RpcCode.UNIMPLEMENTED:
                return None
            raise
        if not answer.HasField("linux"):
            return None
        return CgroupDriver.SYSTEMD if answer.linux.cgroup_driver == v1.SYSTEMD else CgroupDriver.CGROUPFS

    # --- sandboxes --------------------------------------------------------------------------------------------------

    async def run_sandbox(self, config: SandboxConfig, *, handler: str) -> str:
        """The ID of a new sandbox. ``handler`` is empty for the engine's default."""
        request = v1.RunPodSandboxRequest(config=sandbox_to_v1(config), runtime_handler=handler)
        answer = await self._runtime("RunPodSandbox", request, v1.RunPodSandboxResponse, timeout_s=2 * CALL_S)
        return answer.pod_sandbox_id

    async def stop_sandbox(self, sandbox: str) -> None:
        """Kill the containers of a sandbox and remove its network; nothing happens if the engine does not know it."""
        request = v1.StopPodSandboxRequest(pod_sandbox_id=sandbox)
        try:
            await self._runtime("StopPodSandbox", request, v1.StopPodSandboxResponse)
        except RpcFailed as error:
            if error.code is not RpcCode.NOT_FOUND:
                raise

    async def remove_sandbox(self, sandbox: str) -> None:
        """Remove a sandbox with its containers; nothing happens if the engine does not know it."""
        request = v1.RemovePodSandboxRequest(pod_sandbox_id=sandbox)
        await self._runtime("RemovePodSandbox", request, v1.RemovePodSandboxResponse)

    async def sandbox_status(self, sandbox: str, *, mode: NamespaceMode) -> SandboxStatus:
        """``mode``: whose network it was put on, as some engines tell the host's addresses for their own."""
        request = v1.PodSandboxStatusRequest(pod_sandbox_id=sandbox)
        answer = await self._runtime("PodSandboxStatus", request, v1.PodSandboxStatusResponse)
        return sandbox_status_from_v1(answer.status, mode=mode)

    async def sandboxes(self, labels: Mapping[str, str]) -> list[Sandbox]:
        """All that carry ``labels``, oldest first."""
        request = v1.ListPodSandboxRequest(filter=v1.PodSandboxFilter(label_selector=labels))
        answer = await self._runtime("ListPodSandbox", request, v1.ListPodSandboxResponse)
        return sorted(map(sandbox_from_v1, answer.items), key=lambda each: (each.created_at, each.attempt))

    # --- containers -------------------------------------------------------------------------------------------------

    async def create_container(self, sandbox: str, config: ContainerConfig, sandbox_config: SandboxConfig) -> str:
        """The ID of a new container, which does not run yet."""
        request = v1.CreateContainerRequest(
            pod_sandbox_id=sandbox, config=container_to_v1(config), sandbox_config=sandbox_to_v1(sandbox_config)
        )
        return (await self._runtime("CreateContainer", request, v1.CreateContainerResponse)).container_id

    async def start_container(self, container: str) -> None:
        request = v1.StartContainerRequest(container_id=container)
        await self._runtime("StartContainer", request, v1.StartContainerResponse)

    async def stop_container(self, container: str, *, grace_s: int) -> None:
        """Stop a container, and return when it has ended; a grace of 0 kills it."""
        request = v1.StopContainerRequest(container_id=container, timeout=grace_s)
        await self._runtime("StopContainer", request, v1.StopContainerResponse, timeout_s=CALL_S + grace_s)

    async def remove_container(self, container: str) -> None:
        """Remove a container; nothing happens if the engine does not know it."""
        request = v1.RemoveContainerRequest(container_id=container)
        try:
            await self._runtime("RemoveContainer", request, v1.RemoveContainerResponse)
        except RpcFailed as error:
            if error.code is not RpcCode.NOT_FOUND:
                raise

    async def reopen_log(self, container: str) -> None:
        """Make the engine write a container's log to a new file, after the old one was moved away."""
        request = v1.ReopenContainerLogRequest(container_id=container)
        await self._runtime("ReopenContainerLog", request, v1.ReopenContainerLogResponse)

    async def containers(self, labels: Mapping[str, str]) -> list[ListedContainer]:
        """All that carry ``labels``, oldest first."""
        request = v1.ListContainersRequest(filter=v1.ContainerFilter(label_selector=labels))
        answer = await self._runtime("ListContainers", request, v1.ListContainersResponse)
        return sorted(map(listed_from_v1, answer.containers), key=lambda each: (each.created_at, each.attempt))

    async def container_status(self, container: str) -> ContainerStatus:
        try:
            answer = await self._container_status(container, verbose=True)
        except RpcFailed as error:
            if error.code is not RpcCode.NOT_FOUND:
                raise
            # containerd may know a container but none of its details, if those were removed behind CRI.
            answer = await self._container_status(container, verbose=False)
        return status_from_v1(answer.status, info=answer.info)

    async def _container_status(self, container: str, *, verbose: bool) -> v1.ContainerStatusResponse:
        request = v1.ContainerStatusRequest(container_id=container, verbose=verbose)
        return await self._runtime("ContainerStatus", request, v1.ContainerStatusResponse)

    async def exec_sync(self, container: str, command: Sequence[str]) -> ExecResult:
        """Run a command to its end, however long that takes; giving up the call kills it."""
        request = v1.ExecSyncRequest(container_id=container, cmd=command)
        answer = await call(self._channel, f"/{RUNTIME}/ExecSync", request, v1.ExecSyncResponse)
        return ExecResult(answer.stdout, answer.stderr, answer.exit_code)

    async def exec_url(self, container: str, command: Sequence[str], *, tty: bool) -> str:
        """The URL at which a command can be run with input; it is good for one connection, for a minute or so.

        Args:
            tty: whether the command gets a terminal, which has no stderr.
        """
        request = v1.ExecRequest(container_id=container, cmd=command, tty=tty, stdin=True, stdout=True, stderr=not tty)
        return (await self._runtime("Exec", request, v1.ExecResponse)).url

    async def attach_url(self, container: str, *, stdin: bool, tty: bool) -> str:
        """The URL at which a container's own streams are; it is good for one connection, for a minute or so.

        Args:
            tty: whether the container has a terminal, and so no stderr.
        """
        request = v1.AttachRequest(container_id=container, stdin=stdin, tty=tty, stdout=True, stderr=not tty)
        return (await self._runtime("Attach", request, v1.AttachResponse)).url

    async def port_forward_url(self, sandbox: str, port: int) -> str:
        """The URL at which a port of a sandbox can be connected to; it is good for one connection, for a minute or so.

        Raises:
            RpcFailed: the engine does not know the sandbox, or it does not run.
        """
        request = v1.PortForwardRequest(pod_sandbox_id=sandbox, port=[port])
        return (await self._runtime("PortForward", request, v1.PortForwardResponse)).url

    # --- images -----------------------------------------------------------------------------------------------------

    async def image(self, name: str) -> Image | None:
        """The ID of an image; None if it is not on the machine."""
        request = v1.ImageStatusRequest(image=v1.ImageSpec(image=name))
        answer = await call(self._channel, f"/{IMAGES}/ImageStatus", request, v1.ImageStatusResponse, timeout_s=CALL_S)
        return image_from_v1(answer.image) if answer.HasField("image") and answer.image.id else None

    async def pull_image(self, name: str, sandbox: SandboxConfig, login: RegistryLogin | None = None) -> str:
        """The ID of the image that ``name`` is now."""
        auth = None if login is None else v1.AuthConfig(username=login.username, password=login.password)
        request = v1.PullImageRequest(image=v1.ImageSpec(image=name), auth=auth, sandbox_config=sandbox_to_v1(sandbox))
        return (await call(self._channel, f"/{IMAGES}/PullImage", request, v1.PullImageResponse)).image_ref

    async def _runtime(
        self, method: str, request: Message, answer: type[_Answer], *, timeout_s: float = CALL_S
    ) -> _Answer:
        return await call(self._channel, f"/{RUNTIME}/{method}", request, answer, timeout_s=timeout_s)


def is_away(error: RpcFailed) -> bool:
    """Whether the error says that the engine does not run, or not yet; the call may have been carried out or not."""
    return error.code is RpcCode.UNAVAILABLE or _NOT_YET in error.detail
