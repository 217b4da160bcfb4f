"""The node that ``plugbay node up`` runs, in this process."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from plugbay.cli.arguments.page_options import chosen_page
from plugbay.cli.arguments.roots import chosen_root, root_option
from plugbay.cli.node.registration_options import registration
from plugbay.cli.node.release_options import release_limits
from plugbay.cli.node.runtime_options import cri_config, log_limits, may_be_process, oci_config
from plugbay.cli.printing.logs import configure_logs
from plugbay.cli.printing.output import discard_stdout, show
from plugbay.errors import PathUnusable, UsageError
from plugbay.manager.config import ForeignCheckpoint
from plugbay.manager.gates import FeatureGates, parse_feature_gates
from plugbay.node.config import NodeConfig
from plugbay.node.run import run_node
from plugbay.node.runtimes.choice import with_default_runtime
from plugbay.ops.clock import SystemClock
from plugbay.ops.listening import TcpAddress, UnixAddress, parse_address
from plugbay.ops.service_manager import ServiceManager
from plugbay.pods.devices import DeviceFailure
from plugbay.runtimes.mounts import MissingMount
from plugbay.topology.settings import TopologySettings, split_options
from plugbay.traffic.file import RecordingSettings

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
"""The first signal stops the node in order, the second one ends it now; that costs nothing but time."""


def run_node_up(args: argparse.Namespace, started: Callable[[], None]) -> int:
    """Run a node until it is told to stop.

    Args:
        started: called once the node answers.
    """
    configure_logs(args.log_level, sys.stderr, form=args.log_format)
    config = NodeConfig(
        chosen_root(args),
        name=args.name,
        plugins_group=_group(args.plugins_group),
        on_foreign_checkpoint=ForeignCheckpoint(args.on_foreign_checkpoint),
        on_device_failure=DeviceFailure(args.on_device_failure),
        on_missing_mount=MissingMount(args.on_missing_mount),
        max_pods=args.max_pods,
        registers_with=registration(args),
        manifests=_manifests(args.manifests),
        gates=_gates(args.feature_gates),
        release=release_limits(args),
        topology=TopologySettings(
            args.topology_manager_policy,
            args.topology_manager_scope,
            split_options(args.topology_manager_policy_options),
        ),
        fake_numa_nodes=args.fake_numa_nodes,
        metrics=None if args.metrics is None else parse_address(args.metrics),
        api=_api_address(args.api),
        ui=chosen_page(args),
        ui_names=tuple(args.ui_name),
        logs=log_limits(args),
        oci=oci_config(args),
        cri=cri_config(args),
        record=None if args.record is None else RecordingSettings(args.record.absolute()),
    )
    if may_be_process(args):
        config = with_default_runtime(config, environ=os.environ)
    asyncio.run(_serve(config, started, root_option=root_option(args)))
    return 0


def _group(name: str | None) -> int | None:
    """The number of a group.

    Raises:
        UsageError: there is none of that name.
    """
    if name is None or name.isdecimal():
        return None if name is None else int(name)
    import grp  # imported here: few nodes have such a group

    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise UsageError(f"--plugins-group {name}: this machine has no group of that name") from None


def _api_address(text: str | None) -> TcpAddress | None:
    address = None if text is None else parse_address(text)
    if isinstance(address, UnixAddress):
        raise UsageError(f"--api {text}: the API is on a unix socket anyway; give HOST:PORT")
    return address


def _manifests(directory: Path | None) -> Path | None:
    """The directory of manifests, which may be made later. A file is refused: the node would wait without a word."""
    if directory is not None and directory.exists() and not directory.is_dir():
        raise PathUnusable(str(directory), "is not a directory")
    return None if directory is None else directory.absolute()


def _gates(text: str) -> FeatureGates:
    try:
        return parse_feature_gates(text)
    except UsageError as error:
        raise UsageError(f"--feature-gates {text}: {error}") from error


async def _serve(config: NodeConfig, started: Callable[[], None], *, root_option: str) -> None:
    manager = ServiceManager.of(os.environ)

    def ready() -> None:
        started()
        manager.ready(f"the node answers at {config.control_socket}")
        show(_greeting(config))

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, _stop, stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # which is what nohup does
        loop.add_signal_handler(signal.SIGHUP, stop.set)  # a terminal that closes may send several
    await run_node(
        config,
        environ=os.environ,
        clock=SystemClock(),
        stop=stop,
        ready=ready,
    )
    try:
        show(f"node stopped; its pods go on, and the next `plugbay node up{root_option}` takes them over\n")
    except OSError:  # the terminal is gone, which is not a failure of the node
        discard_stdout()


def _stop(stop: asyncio.Event) -> None:
    stop.set()
    for each in _SIGNALS:
        asyncio.get_running_loop().remove_signal_handler(each)
        signal.signal(each, signal.SIG_DFL)


def _greeting(config: NodeConfig) -> str:
    runtime = "process; it isolates nothing: containers are plain processes of this user on this host"
    if config.oci is not None:
        network = "the host's network" if config.oci.cni_configuration is None else "networks of their own"
        seen = f"{config.oci.rootfs} as their root" if config.oci.rootfs else "the host's programs"
        runtime = f"oci; containers see {seen}, read-only, and pods have {network}"
    if config.cri is not None:
        runtime = f"cri; {config.cri.socket or 'containerd or CRI-O'} runs the containers and makes their network"
    return (
        f"root:            {config.root}\n"
        f"control socket:  {config.control_socket}\n"
        f"kubelet socket:  {config.kubelet_paths.registration_socket}\n"
        f"runtime:         {runtime}\n"
        f"{'' if config.api is None else f'kubeconfig:      {config.kubeconfig}{chr(10)}'}"
        "SIGTERM or Ctrl-C stops the node and leaves its pods running.\n"
    )
