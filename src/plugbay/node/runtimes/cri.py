"""The cri runtime of a node: an engine, and what a kubelet would tell it."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from plugbay.kubelet.paths import STOCK_ROOT, KubeletPaths
from plugbay.node.access.peers import shares_mounts
from plugbay.node.config import CriConfig, KubeletEngine, NodeConfig
from plugbay.node.root_lock import answers
from plugbay.node.runtimes.chosen import (
    PROC,
    ChosenRuntime,
    cgroup_prefix,
    ensure_private,
    host_dns,
    host_names,
    oci_containers,
    peer_check,
    refuse_foreign,
    sub_path_means,
)
from plugbay.ops.clock import Clock
from plugbay.ops.tasks import background
from plugbay.pods.node import Machine
from plugbay.pods.running.sub_paths import SubPathMeans
from plugbay.runtimes.cri.config import Conventions
from plugbay.runtimes.cri.engine import absences, open_engine
from plugbay.runtimes.cri.forwarding import EnginePorts
from plugbay.runtimes.cri.kubelets import check_kubelets
from plugbay.runtimes.cri.runtime import CriEngine, CriRuntime
from plugbay.runtimes.cri.sandboxes import CriSandboxes

logger = logging.getLogger(__name__)

CRI_SOCKETS: Final = (Path("/run/containerd/containerd.sock"), Path("/var/run/crio/crio.sock"))


@asynccontextmanager
async def open_cri(
    config: NodeConfig, cri: CriConfig, machine: Machine, *, clock: Clock
) -> AsyncIterator[ChosenRuntime]:
    """The runtime of a node that runs its containers with containerd or CRI-O, while the block runs.

    Raises:
        ContainerEngineUnusable: no engine answers, or it is a kubelet's.
        PathUnusable: the node's pods have another runtime.
    """
    refuse_foreign(config.containers, runtime="process")
    refuse_foreign(oci_containers(config), runtime="oci")
    await asyncio.to_thread(ensure_private, config.pod_logs.parent)
    socket = cri.socket or next((each for each in CRI_SOCKETS if each.is_socket()), CRI_SOCKETS[0])
    client, traits = await open_engine(socket, clock)
    try:
        kubelet = await asyncio.to_thread(_kubelet_beside, config, socket)
        await check_kubelets(client, socket, kubelet=kubelet, is_allowed=cri.on_kubelet is KubeletEngine.USE)
        conventions = Conventions(
            node=str(uuid.uuid5(uuid.NAMESPACE_URL, config.real_root.as_uri())),
            log_root=str(config.pod_logs),
            pods_root=str(config.pods),
            cgroup_prefix=cgroup_prefix(config),
            cgroup_driver=traits.cgroup_driver,
            memory_bytes=machine.capacity["memory"],
            dns=await asyncio.to_thread(host_dns),
            hosts=await asyncio.to_thread(host_names),
        )
        sandboxes = CriSandboxes(client, conventions)
        runtime = CriRuntime(CriEngine(client, traits, cri.cdi_directories), sandboxes, conventions, clock, config.logs)
        about = f"{traits.version.name} {traits.version.version} ({socket})"
        version = traits.version.version.removeprefix("v")
        async with background(runtime.rotate_logs(), name="container logs"):
            yield ChosenRuntime(
                runtime,
                sandboxes,
                EnginePorts(client, sandboxes),
                about,
                partial(absences, client, clock),
                version,
                sub_paths=await asyncio.to_thread(_cri_sub_path_means, socket),
                refusal=peer_check(config),
            )
    finally:
        await client.close()


def _kubelet_beside(config: NodeConfig, engine: Path) -> Path | None:
    """The socket of a stock kubelet that answers, if the engine is one that stock kubelets use."""
    if config.real_root == STOCK_ROOT.resolve() or engine.resolve() not in {each.resolve() for each in CRI_SOCKETS}:
        return None
    kubelet = KubeletPaths(STOCK_ROOT).registration_socket
    try:
        return kubelet if answers(kubelet) else None
    except OSError:  # it is closed to us, so that there is one most likely
        return kubelet


def _cri_sub_path_means(socket: Path) -> SubPathMeans:
    """An engine that does not see our mounts would show the empty directories below them."""
    if shares_mounts(socket, proc_root=PROC):
        return sub_path_means()
    logger.info("the engine has mounts apart from the node's: a subPath that a container may exchange is refused")
    return SubPathMeans.NAMED
