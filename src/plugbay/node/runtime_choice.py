"""The runtime that a node was told to use, with its sandboxes."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from plugbay.cni.cache import ResultCache
from plugbay.cni.invoke import Plugins
from plugbay.cni.runtime import CniRuntime
from plugbay.errors import EngineUnusable, PathUnusable, UsageError
from plugbay.kernel.capabilities import held_capabilities
from plugbay.kernel.files import make_private, remove_unfinished, write_durably
from plugbay.kubelet.paths import KubeletPaths
from plugbay.kubelet.roots import STOCK_ROOT
from plugbay.model.resolution import DnsConfig
from plugbay.node.config import CriConfig, KubeletEngine, NodeConfig, OciConfig
from plugbay.node.machine import Machine
from plugbay.node.network import PodNetwork
from plugbay.node.peers import PeerCheck, containers_are_refused, shares_mounts
from plugbay.node.root_guard import answers
from plugbay.node.runtimes.cri.config import Conventions, parse_resolv_conf
from plugbay.node.runtimes.cri.engine import absences, open_engine
from plugbay.node.runtimes.cri.kubelets import check_kubelets
from plugbay.node.runtimes.cri.runtime import CriEngine, CriRuntime
from plugbay.node.runtimes.cri.sandboxes import CriSandboxes
from plugbay.node.runtimes.oci.confinement import Grounds, OciConfinement
from plugbay.node.runtimes.oci.engines import Engine, choose_engine, probe
from plugbay.node.runtimes.oci.handlers import handler_of
from plugbay.node.runtimes.oci.host_etc import HostEtc
from plugbay.node.runtimes.oci.pod_files import HostFiles
from plugbay.node.runtimes.oci.rootfs import HostView, read_root
from plugbay.node.runtimes.oci.rootless import Owner
from plugbay.node.runtimes.oci.sandbox_plan import Rights
from plugbay.node.runtimes.oci.sandboxes import OciSandboxes, SandboxPlaces
from plugbay.node.runtimes.port import ContainerRuntime
from plugbay.node.runtimes.process.launch import DEFAULT_PATH
from plugbay.node.runtimes.process.runtime import ProcessRuntime
from plugbay.node.runtimes.sandboxes import HostSandboxes, Network, Sandboxes
from plugbay.node.sub_paths import SubPathMeans
from plugbay.ops.clock import Clock
from plugbay.ops.tasks import background

logger = logging.getLogger(__name__)

CRI_SOCKETS: Final = (Path("/run/containerd/containerd.sock"), Path("/var/run/crio/crio.sock"))

_PROC: Final = Path("/proc")
_HOSTS: Final = Path("/etc/hosts")
_RESOLV_CONF: Final = Path("/etc/resolv.conf")
_CONTAINERS: Final = "containers"
_ENGINES: Final = "engine"
_LAYER: Final = "empty"
_ETC: Final = "etc"
_NO_NETWORKS: Final = "no-networks"


@dataclass(frozen=True, slots=True)
class ChosenRuntime:
    """The runtime that a node uses, and what comes with it.

    Attributes:
        about: who runs the containers, and who was passed over.
        absences: tells when it cannot be asked, as `follow_absences` takes it; None if it always can.
        version: of the container engine that it stands for; empty if the node runs the containers itself.
        sub_paths: how containers are given parts of volumes.
        refusal: why the peer of a connection may not talk to the node; empty if it may.
    """

    runtime: ContainerRuntime
    sandboxes: Sandboxes
    about: str
    absences: Callable[[], AsyncIterator[str]] | None = None
    version: str = ""
    sub_paths: SubPathMeans = SubPathMeans.OPEN
    refusal: PeerCheck = lambda connection: ""


def with_default_runtime(config: NodeConfig, *, environ: Mapping[str, str]) -> NodeConfig:
    """``config``, which has the oci runtime, with that of the node's pods, or else with the best that works here.

    Takes some 0.1 s where an engine has to be tried. Says in the log why containers are plain processes.
    """
    if _holds_anything(config.containers):
        logger.info(
            "containers are plain processes, like those of the node's pods; --runtime oci needs a node without pods"
        )
        return replace(config, oci=None)
    if _holds_anything(config.oci_dir / _CONTAINERS):
        return config
    try:
        choose_engine(None, search_path=_search_path(environ), state_dir=config.oci_dir / _ENGINES)
    except EngineUnusable as error:
        logger.warning("containers are plain processes, without mounts or isolation of their own: %s", error)
        return replace(config, oci=None)
    return config


@asynccontextmanager
async def open_runtime(
    config: NodeConfig, machine: Machine, *, environ: Mapping[str, str], clock: Clock
) -> AsyncIterator[ChosenRuntime]:
    """The runtime of ``config`` while the block runs; finding an engine takes some 0.1 s.

    Raises:
        EngineUnusable: no OCI engine works here.
        ContainerEngineUnusable: no engine answers.
        PathUnusable: the root file system for containers is no directory, or the node's pods have another runtime.
    """
    if config.cri is not None:
        async with _open_cri(config, config.cri, machine, clock=clock) as chosen:
            yield chosen
    else:
        yield await asyncio.to_thread(_open_local, config, environ=environ, clock=clock)


def _open_local(config: NodeConfig, *, environ: Mapping[str, str], clock: Clock) -> ChosenRuntime:
    _refuse_foreign(config.pod_logs, runtime="cri")
    if config.oci is None:
        _refuse_foreign(config.oci_dir / _CONTAINERS, runtime="oci")
        runtime = ProcessRuntime(config.containers, environ=environ, clock=clock.now, logs=config.logs)
        return ChosenRuntime(runtime, HostSandboxes(), "the node itself, as plain processes")
    return _open_oci(config, config.oci, environ=environ, clock=clock)


def _open_oci(config: NodeConfig, oci: OciConfig, *, environ: Mapping[str, str], clock: Clock) -> ChosenRuntime:
    oci_dir = config.oci_dir
    if oci.rootfs is not None and not oci.rootfs.is_dir():
        raise PathUnusable(str(oci.rootfs), "is not a directory, and containers need one for their root file system")
    _refuse_foreign(config.containers, runtime="process")
    _make_private(oci_dir)
    owner = Owner(os.geteuid(), os.getegid()) if os.geteuid() else None
    if owner is not None and oci.cni_configuration is not None:
        raise UsageError("--cni-conf-dir needs root rights: only root may put pods on networks")
    engine = choose_engine(oci.engine, search_path=_search_path(environ), state_dir=oci_dir / _ENGINES)
    engine = replace(engine, state_dir=oci_dir / _ENGINES / engine.kind)
    _refuse_other_engine(oci_dir / _ENGINES, engine)
    cgroup_parent = _cgroup_prefix(config)
    places = SandboxPlaces(oci_dir / "sandboxes", oci_dir / "netns", oci_dir / "shared", cgroup_parent)
    cache = ResultCache(oci_dir / "cni", write=write_durably)
    for directory in (places.records, *cache.directories):
        remove_unfinished(directory)
    plugins = Plugins(oci.cni_binaries, environ=environ)
    sandboxes = OciSandboxes(
        places,
        PodNetwork(CniRuntime(plugins, cache), oci.cni_configuration or oci_dir / _NO_NETWORKS, proc_root=_PROC),
        default=Network.HOST if oci.cni_configuration is None else Network.POD,
        has_handler=lambda name: handler_of(name, engine=engine.kind) is not None,
        host=HostFiles(_host_names(), _host_dns()),
        rights=Rights.ROOT if owner is None else Rights.USER,
    )
    grounds = Grounds(
        _host_view(config, oci, engine),
        cgroup_parent,
        held_capabilities(proc_root=_PROC),
        oci.cdi_directories,
        shares_of=sandboxes.shares_of,
        owner=owner,
    )
    runtime = ProcessRuntime(
        oci_dir / _CONTAINERS,
        environ=environ,
        clock=clock.now,
        confinement=OciConfinement(engine, grounds),
        logs=config.logs,
    )
    refusal = _peer_check(config)
    return ChosenRuntime(runtime, sandboxes, _about(engine, owner), sub_paths=_sub_path_means(), refusal=refusal)


def _host_view(config: NodeConfig, oci: OciConfig, engine: Engine) -> HostView:
    """What containers see of the host: by overlays where the engine can make them."""
    layer = config.oci_dir / _LAYER
    layer.mkdir(mode=0o755, exist_ok=True)
    prefix = Path(sys.base_prefix)
    view = HostView(
        oci.rootfs,
        etc=HostEtc(config.oci_dir / _ETC),
        programs=(prefix / "bin", prefix / "lib"),
        hidden=tuple({path for each in (config.root, STOCK_ROOT) for path in (each, each.resolve())}),
        layer=layer,
        is_for_root=os.geteuid() == 0,
        proc_root=_PROC,
    )
    overlays = [each for each in read_root(view).mounts if each["type"] == "overlay"]
    if problem := probe(engine.program, overlays):
        logger.warning(
            "the kernel makes no overlays for containers (%s), so they see directories of the host themselves: a "
            "container can connect to a unix socket that lies in one of them; keep sockets in /run",
            problem,
        )
        return replace(view, layer=None)
    return view


def _refuse_other_engine(states: Path, engine: Engine) -> None:
    """Each engine reads only what it wrote itself."""
    for state in states.glob("*"):
        if state.name != engine.kind and any(state.iterdir()):
            problem = f"holds containers that {state.name} runs; delete their pods with --oci-engine {state.name} first"
            raise PathUnusable(str(state), problem)


def _search_path(environ: Mapping[str, str]) -> str:
    return environ.get("PATH", os.defpath) + ":" + DEFAULT_PATH


def _holds_anything(directory: Path) -> bool:
    return directory.is_dir() and any(directory.iterdir())


def _refuse_foreign(containers: Path, *, runtime: str) -> None:
    """Neither runtime can look after the other one's containers."""
    if _holds_anything(containers):
        problem = f"holds containers of the {runtime} runtime; delete their pods with --runtime {runtime} first"
        raise PathUnusable(str(containers), problem)


@asynccontextmanager
async def _open_cri(
    config: NodeConfig, cri: CriConfig, machine: Machine, *, clock: Clock
) -> AsyncIterator[ChosenRuntime]:
    _refuse_foreign(config.containers, runtime="process")
    _refuse_foreign(config.oci_dir / _CONTAINERS, runtime="oci")
    await asyncio.to_thread(_make_private, config.pod_logs.parent)
    socket = cri.socket or next((each for each in CRI_SOCKETS if each.is_socket()), CRI_SOCKETS[0])
    client, traits = await open_engine(socket, clock)
    try:
        kubelet = await asyncio.to_thread(_kubelet_beside, config, socket)
        await check_kubelets(client, socket, kubelet=kubelet, is_allowed=cri.on_kubelet is KubeletEngine.USE)
        conventions = Conventions(
            node=str(uuid.uuid5(uuid.NAMESPACE_URL, config.root.as_uri())),
            log_root=str(config.pod_logs),
            pods_root=str(config.pods),
            cgroup_prefix=_cgroup_prefix(config),
            cgroup_driver=traits.cgroup_driver,
            memory_bytes=machine.capacity["memory"],
            dns=await asyncio.to_thread(_host_dns),
            hosts=await asyncio.to_thread(_host_names),
        )
        sandboxes = CriSandboxes(client, conventions)
        runtime = CriRuntime(CriEngine(client, traits, cri.cdi_directories), sandboxes, conventions, clock, config.logs)
        about = f"{traits.version.name} {traits.version.version} ({socket})"
        version = traits.version.version.removeprefix("v")
        async with background(runtime.rotate_logs(), name="container logs"):
            yield ChosenRuntime(
                runtime,
                sandboxes,
                about,
                partial(absences, client, clock),
                version,
                sub_paths=await asyncio.to_thread(_cri_sub_path_means, socket),
                refusal=_peer_check(config),
            )
    finally:
        await client.close()


def _kubelet_beside(config: NodeConfig, engine: Path) -> Path | None:
    """The socket of a stock kubelet that answers, if the engine is one that stock kubelets use."""
    if config.root == STOCK_ROOT or engine.resolve() not in {each.resolve() for each in CRI_SOCKETS}:
        return None
    kubelet = KubeletPaths(STOCK_ROOT).registration_socket
    try:
        return kubelet if answers(kubelet) else None
    except OSError:  # it is closed to us, so that there is one most likely
        return kubelet


def _host_dns() -> DnsConfig | None:
    try:
        return parse_resolv_conf(_RESOLV_CONF.read_text(errors="replace"))
    except OSError:
        return None


def _make_private(directory: Path) -> None:
    try:
        make_private(directory)
    except OSError as error:
        raise PathUnusable(str(directory), f"cannot be closed to other users: {error.strerror}") from error


def _cri_sub_path_means(socket: Path) -> SubPathMeans:
    """An engine that does not see our mounts would show the empty directories below them."""
    if shares_mounts(socket, proc_root=_PROC):
        return _sub_path_means()
    logger.info("the engine has mounts apart from the node's: a subPath that a container may exchange is refused")
    return SubPathMeans.NAMED


def _sub_path_means() -> SubPathMeans:
    return SubPathMeans.NAMED if os.geteuid() else SubPathMeans.BOUND


def _host_names() -> str:
    try:
        return _HOSTS.read_text(errors="replace")
    except OSError:
        return ""


def _cgroup_prefix(config: NodeConfig) -> str:
    """Nodes on one machine must not meet below the cgroup roots, where pod UIDs alone may be equal."""
    return f"plugbay-{hashlib.sha256(os.fsencode(config.root)).hexdigest()[:8]}"


def _peer_check(config: NodeConfig) -> PeerCheck:
    """An engine with the systemd driver writes the names of cgroups in its own way."""
    prefix = _cgroup_prefix(config)
    prefixes = (f"{prefix}-", f"{prefix.replace('-', '_')}-")
    return containers_are_refused(cgroup_prefixes=prefixes, proc_root=_PROC)


def _about(engine: Engine, owner: Owner | None) -> str:
    passed_over = "".join(f"; {name} does not work here: {problem}" for name, problem in engine.passed_over.items())
    rights = "" if owner is None else "; without root rights, so there are no limits and no rules for devices"
    return f"{engine.version} ({engine.program}){passed_over}{rights}"
