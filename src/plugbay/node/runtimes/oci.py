"""The oci runtime of a node: its engine, the host as containers see it, and networks for pods."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from plugbay.cni.cache import ResultCache
from plugbay.cni.invoke import Plugins
from plugbay.cni.runtime import CniRuntime
from plugbay.errors import PathUnusable, UsageError
from plugbay.kernel.capabilities import held_capabilities
from plugbay.kernel.files import remove_unfinished, write_durably
from plugbay.kubelet.paths import STOCK_ROOT
from plugbay.node.config import NodeConfig, OciConfig
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
from plugbay.runtimes.oci.confinement import Grounds, OciConfinement
from plugbay.runtimes.oci.engines import OciEngine, choose_engine, probe
from plugbay.runtimes.oci.handlers import handler_of
from plugbay.runtimes.oci.host_etc import HostEtc
from plugbay.runtimes.oci.leftovers import sweep_engine
from plugbay.runtimes.oci.network import PodNetwork
from plugbay.runtimes.oci.pod_files import HostFiles
from plugbay.runtimes.oci.rootfs import HostView, read_root
from plugbay.runtimes.oci.rootless import FileOwner
from plugbay.runtimes.oci.sandbox_plan import Rights
from plugbay.runtimes.oci.sandboxes import OciSandboxes, SandboxPlaces
from plugbay.runtimes.sandboxes import Network
from plugbay.runtimes.supervised.launch import DEFAULT_PATH
from plugbay.runtimes.supervised.runtime import SupervisedRuntime

logger = logging.getLogger(__name__)

_ENGINES: Final = "engine"
_LAYER: Final = "empty"
_ETC: Final = "etc"
_NO_NETWORKS: Final = "no-networks"


def open_oci(config: NodeConfig, oci: OciConfig, *, environ: Mapping[str, str], clock: Clock) -> ChosenRuntime:
    """The runtime of a node that runs its containers with crun or runc.

    Raises:
        EngineUnusable: no engine works here.
        PathUnusable: the root file system for containers is not a directory, or the node's pods have another runtime.
        UsageError: networks for pods need rights that are missing.
    """
    refuse_foreign(config.pod_logs, runtime="cri")
    oci_dir = config.oci_dir
    if oci.rootfs is not None and not oci.rootfs.is_dir():
        raise PathUnusable(str(oci.rootfs), "is not a directory, and containers need one for their root file system")
    refuse_foreign(config.containers, runtime="process")
    ensure_private(oci_dir)
    owner = FileOwner(os.geteuid(), os.getegid()) if os.geteuid() else None
    if owner is not None and oci.cni_configuration is not None:
        raise UsageError("--cni-conf-dir needs root rights: only root may put pods on networks")
    engine = find_engine(config, oci.engine, environ=environ)
    engine = replace(engine, state_dir=oci_dir / _ENGINES / engine.kind)
    sweep_engine(engine, oci_containers(config), proc_root=PROC)
    _refuse_other_engine(oci_dir / _ENGINES, engine)
    cgroup_parent = cgroup_prefix(config)
    places = SandboxPlaces(oci_dir / "sandboxes", oci_dir / "netns", oci_dir / "shared", cgroup_parent)
    cache = ResultCache(oci_dir / "cni", write=write_durably)
    for directory in (places.records, *cache.directories):
        remove_unfinished(directory)
    plugins = Plugins(oci.cni_binaries, environ=environ)
    sandboxes = OciSandboxes(
        places,
        PodNetwork(CniRuntime(plugins, cache), oci.cni_configuration or oci_dir / _NO_NETWORKS, proc_root=PROC),
        default=Network.HOST if oci.cni_configuration is None else Network.POD,
        has_handler=lambda name: handler_of(name, engine=engine.kind) is not None,
        host=HostFiles(host_names(), host_dns()),
        rights=Rights.ROOT if owner is None else Rights.USER,
    )
    grounds = Grounds(
        _host_view(config, oci, engine),
        cgroup_parent,
        held_capabilities(proc_root=PROC),
        oci.cdi_directories,
        shares_of=sandboxes.shares_of,
        owner=owner,
    )
    runtime = SupervisedRuntime(
        oci_containers(config),
        environ=environ,
        clock=clock.now,
        confinement=OciConfinement(engine, grounds),
        logs=config.logs,
    )
    refusal = peer_check(config)
    return ChosenRuntime(
        runtime, sandboxes, sandboxes, _about(engine, owner), sub_paths=sub_path_means(), refusal=refusal
    )


def find_engine(config: NodeConfig, wanted: str | None, *, environ: Mapping[str, str]) -> OciEngine:
    """The engine that the node would run containers with; trying one takes some 0.1 s.

    Raises:
        EngineUnusable: none works here.
    """
    search_path = environ.get("PATH", os.defpath) + ":" + DEFAULT_PATH
    return choose_engine(wanted, search_path=search_path, state_dir=config.oci_dir / _ENGINES)


def _host_view(config: NodeConfig, oci: OciConfig, engine: OciEngine) -> HostView:
    """The host as containers see it: by overlays where the engine can make them."""
    layer = config.oci_dir / _LAYER
    layer.mkdir(mode=0o755, exist_ok=True)
    prefix = Path(sys.base_prefix)
    view = HostView(
        oci.rootfs,
        etc=HostEtc(config.oci_dir / _ETC),
        programs=(prefix / "bin", prefix / "lib"),
        hidden=tuple(dict.fromkeys(path for each in (config.root, STOCK_ROOT) for path in (each, each.resolve()))),
        layer=layer,
        is_for_root=os.geteuid() == 0,
        proc_root=PROC,
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


def _refuse_other_engine(states: Path, engine: OciEngine) -> None:
    """Each engine reads only what it wrote itself."""
    for state in states.glob("*"):
        if state.name != engine.kind and any(state.iterdir()):
            problem = f"holds containers that {state.name} runs; delete their pods with --oci-engine {state.name} first"
            raise PathUnusable(str(state), problem)


def _about(engine: OciEngine, owner: FileOwner | None) -> str:
    passed_over = "".join(f"; {name} does not work here: {problem}" for name, problem in engine.passed_over.items())
    rights = "" if owner is None else "; without root rights, so there are no limits and no rules for devices"
    return f"{engine.version} ({engine.program}){passed_over}{rights}"
