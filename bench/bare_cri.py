"""A pod run on a container engine by bare calls: what a node's pod is compared with.

The calls are those that the node makes, with the same messages and in the same order; nothing else is done. So what
the engine, its shims and the CNI plugins take is in both, and the difference is ours: HTTP, admission, Allocate, the
store, files, events, the log. What the gRPC library takes for the five calls counts as the engine's.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from pathlib import Path

from plugbay.kernel.cgroups import remove_cgroup
from plugbay.model.cri import CgroupDriver
from plugbay.model.edits import ContainerEdits, DeviceNode
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.pods import Container, Pod, PodSpec
from plugbay.runtimes.cri.config import Conventions, cgroup_name, container_config, sandbox_config
from plugbay.runtimes.port import ContainerSpec
from plugbay.runtimes.sandboxes import SandboxSpec
from plugbay.wire.cri import CriClient


async def run_bare(socket: Path, directory: Path, image: str, name: str) -> float:
    """Milliseconds from the first call to the first line of the log; the pod is gone afterwards."""
    client = CriClient(socket)
    try:
        await client.connect(10)
        return await _run_pod(client, directory, image, name)
    finally:
        await client.close()


async def _run_pod(client: CriClient, directory: Path, image: str, name: str) -> float:
    uid = PodUid(str(uuid.uuid4()))
    logs, pods = str(directory / "logs"), str(directory / "pods")
    conventions = Conventions("bench", logs, pods, "plugbay-bench", CgroupDriver.CGROUPFS, 2**30)
    edits = ContainerEdits(device_nodes=(DeviceNode("/dev/fuse"),))
    container = Container(ContainerName("c"), image, ("sh", "-c", "echo runs; exec sleep 100000"))
    pod = Pod(name, PodSpec((container,)), uid=uid)
    sandbox = sandbox_config(SandboxSpec(pod), conventions, attempt=0)
    spec = ContainerSpec(pod, container, attempt=0, edits=edits)
    Path(sandbox.log_directory, container.name).mkdir(parents=True)
    start = time.perf_counter()
    sandbox_id = await client.run_sandbox(sandbox, handler="")
    await client.sandbox_status(sandbox_id, mode=sandbox.namespaces.network)
    found = await client.image(image)
    assert found is not None, "the engine was given the image"
    config = container_config(spec, conventions, image=found.id, sandbox=sandbox)
    await client.start_container(await client.create_container(sandbox_id, config, sandbox))
    log = Path(sandbox.log_directory, config.log_path)
    while b"runs" not in log.read_bytes():
        await asyncio.sleep(0.0005)
    took_ms = (time.perf_counter() - start) * 1000
    await client.stop_sandbox(sandbox_id)
    await client.remove_sandbox(sandbox_id)
    remove_cgroup(cgroup_name(conventions, uid), proc_root=Path("/proc"))
    return took_ms
