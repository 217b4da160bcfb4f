"""A node for `plugbay doctor`: a stock kubelet's directories, sockets and neighbours below one directory, all well.

What a test changes before `NodeOnDisk.up` is what is wrong with it.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from plugbay.errors import RpcCode, RpcFailed
from plugbay.kubelet.checkpoint import encode
from plugbay.kubelet.checkpoint_data import CheckpointData, PodDevicesEntry
from plugbay.model.edits import ContainerEdits, DeviceNode
from plugbay.model.ids import ContainerName, DeviceId, ResourceName
from plugbay.model.podresources import AllocatableResources, ContainerDevices, ContainerResources, PodResources
from plugbay.observe.doctor.evidence.host import Host
from plugbay.testing.fakes.plugin import fake_plugin
from plugbay.wire.convert import edits_to_pb
from plugbay.wire.cri import RUNTIME
from plugbay.wire.generated import cri_v1_pb2 as cri
from plugbay.wire.grpc.server import serve_grpc
from plugbay.wire.grpc.services import Service
from plugbay.wire.handlers import unary
from plugbay.wire.podresources import pod_resources_handlers
from plugbay.wire.sockets import MAX_SOCKET_PATH_BYTES

PATIENCE_S: Final = 30.0
GPU: Final = "example.com/gpu"
UID: Final = "0b6dd5f2-3a54-4b1c-9f0e-1f0c5a7d2e11"
WEB: Final = ("default", "web")
PLUGIN: Final = "example.com_gpu-0000aaaa.sock"
CDI: Final = "vendor.example/gpu=g0"
KUBELET_LOG: Final = 'I1123 10:00:00.000000     812 server.go:528] "Kubelet version" kubeletVersion="v1.36.2"\n'
SPEC: Final = """\
cdiVersion: 0.5.0
kind: vendor.example/gpu
devices:
- name: g0
  containerEdits:
    mounts: [{hostPath: /opt/gpu/lib.so, containerPath: /usr/lib/gpu.so, options: [bind, ro]}]
"""
NETWORK: Final = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "plugins": [{"type": "bridge", "ipam": {"type": "host-local"}}, {"type": "portmap"}],
}
EDITS: Final = ContainerEdits(device_nodes=[DeviceNode("/dev/gpu0")], cdi_devices=[CDI])


def entry(uid: str, *devices: str, container: str = "main", edits: ContainerEdits = EDITS) -> PodDevicesEntry:
    """Devices of the resource that a container holds."""
    return PodDevicesEntry(uid, container, GPU, {-1: list(devices)}, edits_to_pb(edits).SerializeToString())


class NodeOnDisk:
    """The node.

    Attributes:
        entries, registered: the checkpoint.
        allocatable, held: what PodResources answers.
        engine_version: the version that the engine tells; empty for an engine that does not answer.
        has_kubelet, has_pod_resources, has_plugin, has_engine: whether these sockets are served.
        silent: sockets at which a process listens that never answers.
        host: what `Host` takes besides the root.
        objects: files with v1 objects.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now_s = time.time()
        self.entries = [entry(UID, "g0")]
        self.registered = {GPU: ["g0", "g1"]}
        self.allocatable = {GPU: ["g0", "g1"]}
        self.held = {WEB: {"main": {GPU: ["g0"]}}}
        self.engine_version = ""
        self.has_kubelet = self.has_pod_resources = self.has_plugin = self.has_engine = True
        self.silent: list[Path] = []
        self.host: dict[str, Any] = {"answer_s": PATIENCE_S}
        self.objects: list[Path] = []
        self._lay()

    @property
    def kubelet(self) -> Path:
        return self.root / "var/lib/kubelet"

    @property
    def plugins(self) -> Path:
        return self.kubelet / "device-plugins"

    @property
    def process(self) -> Path:
        """The directory of the kubelet's process, which is this one, in the proc file system."""
        return self.root / "proc" / str(os.getpid())

    @property
    def checkpoint(self) -> Path:
        return self.plugins / "kubelet_internal_checkpoint"

    def write(self, path: str, text: str) -> Path:
        """Write a file of the node."""
        there = self.root / path
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(text)
        return there

    def log(self, *lines: str) -> None:
        """Add to the kubelet's log."""
        with (self.root / "var/log/kubelet.log").open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def pod(self, uid: str, name: str) -> None:
        """Make the directories of a pod."""
        (self.kubelet / "pods" / uid).mkdir(parents=True)
        (self.root / f"var/log/pods/default_{name}_{uid}").mkdir(parents=True)

    def objects_file(self, *items: dict[str, Any]) -> None:
        """Give objects as `kubectl get -o json` writes them."""
        path = self.write(f"objects{len(self.objects)}.json", json.dumps({"kind": "List", "items": list(items)}))
        self.objects.append(path)

    def dead_socket(self, path: Path) -> None:
        """Leave a socket at which no process listens."""
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))

    def write_checkpoint(self) -> None:
        content = encode(CheckpointData(self.entries, self.registered))
        self.checkpoint.write_bytes(content)
        self.checkpoint.chmod(0o600)

    def _lay(self) -> None:
        self.plugins.mkdir(parents=True, mode=0o755)
        (self.kubelet / "plugins_registry").mkdir()
        (self.kubelet / "pod-resources").mkdir()
        self.pod(UID, WEB[1])
        self.write("var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\ncpuManagerPolicy: none\n")
        self.write("var/lib/kubelet/cpu_manager_state", '{"policyName":"none","defaultCpuSet":"","checksum":1}')
        self.write("var/log/kubelet.log", KUBELET_LOG)
        self.write("etc/cdi/vendor.yaml", SPEC)
        self.write("opt/gpu/lib.so", "")
        self.write("dev/gpu0", "")
        self.write("etc/containerd/config.toml", "version = 3\n")
        self.write("etc/cni/net.d/10-pods.conflist", json.dumps(NETWORK))
        for name in ("bridge", "host-local", "portmap"):
            self.write(f"opt/cni/bin/{name}", "")
        self.write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
        (self.root / "sys/devices/system/node/node0").mkdir(parents=True)
        for name, limit in (("instances", 8192), ("watches", 524288)):
            self.write(f"proc/sys/fs/inotify/max_user_{name}", f"{limit}\n")
        self.write("proc/sys/fs/inotify/max_queued_events", "16384\n")
        self.write(str((self.process / "comm").relative_to(self.root)), "kubelet\n")
        self.write(str((self.process / "cmdline").relative_to(self.root)), "kubelet\0--v=2\0")
        self.write(str((self.process / "net/unix").relative_to(self.root)), "Num RefCount Protocol Flags\n")
        (self.process / "ns").mkdir()
        (self.process / "ns/net").symlink_to("net:[4026531833]")
        (self.process / "fd").mkdir()
        (self.process / "root").symlink_to(self.root)
        self.write_checkpoint()

    @asynccontextmanager
    async def up(self) -> AsyncIterator[Host]:
        """Serve the sockets until the block ends."""
        if self.checkpoint.exists() and self.checkpoint.stat().st_mtime <= self.now_s:
            self.now_s = time.time()
        async with AsyncExitStack() as stack:
            if self.has_kubelet:
                stack.enter_context(_listening(self.plugins / "kubelet.sock"))
            if self.has_engine:
                (self.root / "run/containerd").mkdir(parents=True)
                path = self.root / "run/containerd/containerd.sock"
                if self.engine_version:
                    await stack.enter_async_context(serve_grpc(path, [_engine(self.engine_version)]))
                else:
                    stack.enter_context(_listening(path))
            for path in self.silent:
                stack.enter_context(_listening(path))
            if self.has_plugin:
                await stack.enter_async_context(fake_plugin(GPU, self.plugins / PLUGIN))
            if self.has_pod_resources:
                path = self.kubelet / "pod-resources/kubelet.sock"
                await stack.enter_async_context(serve_grpc(path, pod_resources_handlers(_Answers(self))))
            yield Host(self.now_s, self.root, **self.host)


def _engine(version: str) -> Service:
    """An engine that tells its version, and nothing else."""

    async def answer(_: cri.VersionRequest) -> cri.VersionResponse:
        return cri.VersionResponse(runtime_name="containerd", runtime_version=version)

    return Service(RUNTIME, {"Version": unary(cri.VersionRequest, answer)})


def _listening(path: Path) -> socket.socket:
    """A socket that never accepts."""
    assert len(bytes(path)) <= MAX_SOCKET_PATH_BYTES
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen()
    return listener


class _Answers:
    """A stock kubelet's PodResources."""

    def __init__(self, node: NodeOnDisk) -> None:
        self._node = node

    def list_v1(self) -> Sequence[PodResources]:
        raise AssertionError("List can give a device to two pods; doctor must not ask a stock kubelet for it")

    list_v1alpha1 = list_v1

    def get_v1(self, namespace: str, name: str) -> PodResources:
        containers = self._node.held.get((namespace, name))
        if containers is None:
            raise RpcFailed(RpcCode.UNKNOWN, f"pod {name} in namespace {namespace} not found")
        told = [ContainerResources(ContainerName(each), tuple(_devices(of))) for each, of in containers.items()]
        return PodResources(namespace, name, tuple(told))

    def allocatable_v1(self) -> AllocatableResources:
        return AllocatableResources(tuple(_devices(self._node.allocatable)))


def _devices(by_resource: dict[str, list[str]]) -> list[ContainerDevices]:
    return [
        ContainerDevices(ResourceName(name), (DeviceId(each),)) for name, ids in by_resource.items() for each in ids
    ]
