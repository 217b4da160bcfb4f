"""``plugbay nvidia labels``: the labels of a node with NVIDIA GPUs, with the flags of gpu-feature-discovery."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugbay.cli.arguments.options import add_log_options, path_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.kubectl.forms import Form, object_text
from plugbay.cli.printing.logs import configure_logs
from plugbay.cli.printing.output import show
from plugbay.errors import UsageError
from plugbay.ops.clock import SystemClock
from plugbay.plugins.nvidia.config.arguments import Layer, parse_arguments, parse_environment
from plugbay.plugins.nvidia.config.flags import CONFIG_DIALECT, NODE_NAME, ConfigFlag, FlagKind
from plugbay.plugins.nvidia.labels import settings as flags
from plugbay.plugins.nvidia.labels.discovery import FeatureDiscovery, find_labels, load_features
from plugbay.plugins.nvidia.labels.feature_file import feature_text
from plugbay.plugins.nvidia.labels.settings import FEATURE_FLAGS, FeatureSettings

if TYPE_CHECKING:
    from plugbay.ops.cluster import ClusterApi

logger = logging.getLogger(__name__)

_PREFIX: Final = "feature_flag_"
_HELP: Final = {
    flags.MIG_STRATEGY: "how GPUs in MIG mode are offered",
    flags.FAIL_ON_INIT_ERROR: "end when the driver is not usable, instead of labelling a node without GPUs",
    flags.ONESHOT: "write the file once, and leave it",
    flags.NO_TIMESTAMP: "leave out the label that tells when this process started",
    flags.SLEEP_INTERVAL: "the time between two rounds, such as 60s, or infinite",
    flags.OUTPUT_FILE: "write this file again and again, as gpu-feature-discovery does, and remove it at the end; "
    "empty for standard output",
    flags.MACHINE_TYPE_FILE: "the file that names the machine's product",
    flags.CONFIG_FILE: "configuration file of NVIDIA's plugin, version v1; read again after SIGHUP",
    flags.USE_NODE_FEATURE_API: "write a NodeFeature object of Node Feature Discovery again and again, as a pod of the "
    "node's cluster, instead of a file",
    flags.NAMESPACE: "the namespace of that object and of this process' pod",
    NODE_NAME: "the node whose labels they are; needed for that object",
    flags.POD_NAME: "this process' pod, with whose DaemonSet the object is removed",
    flags.DISCOVERY_STRATEGY: "where the properties of GPUs are read: NVML, CUDA for tegra, the PCI bus for vfio",
    flags.CONTAINER_DRIVER_ROOT: "the driver's installation, as this process sees it",
    CONFIG_DIALECT: "reference: the file is read as NVIDIA's plugin 0.20 does, with warnings; "
    "extended: unknown fields are errors, and all fields do what they say",
}


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Print the labels that gpu-feature-discovery gives a node with these GPUs, as Node Feature Discovery reads "
        "them. With --output-file or --use-node-feature-api, be gpu-feature-discovery: write the file or the "
        "NodeFeature object now and then until SIGTERM, and read the configuration again after SIGHUP.",
        examples=(
            "plugbay nvidia labels",
            "plugbay nvidia labels --mig-strategy mixed -o json",
            "plugbay nvidia labels --output-file /etc/kubernetes/node-feature-discovery/features.d/gfd",
        ),
        run=label,
    )
    for flag, text in _HELP.items():
        _add_flag(parser, flag, text)
    parser.add_argument("-o", "--output", choices=("yaml", "json"), default="", help="print YAML or JSON instead")
    parser.add_argument(
        "--machine-root",
        metavar="DIR",
        type=path_of,
        default=Path("/"),
        help="where the files of the machine are: /sys, and those of the driver (default: %(default)s)",
    )
    add_log_options(parser)


def _add_flag(parser: argparse._ActionsContainer, flag: ConfigFlag, text: str) -> None:
    """Add a flag. Its value is checked with those of the environment and the file, so any text goes."""
    parts = [text]
    if flag.allowed:
        parts.append(f"one of {', '.join(flag.allowed)}")
    if isinstance(flag.default, str) and flag.default:
        parts.append(f"default {flag.default}")
    is_boolean = flag.kind is FlagKind.BOOLEAN
    parser.add_argument(
        *(f"--{name}" for name in flag.names),
        dest=f"{_PREFIX}{flag.key}",
        nargs="?" if is_boolean else None,
        const="true" if is_boolean else None,
        metavar="true|false" if is_boolean else "VALUE",
        help=f"{'; '.join(parts)} (${', $'.join(flag.variables)})",
    )


def label(args: argparse.Namespace) -> int:
    """Print labels once, or write them in rounds."""
    configure_logs(args.log_level, sys.stderr, form=args.log_format)
    arguments, environment = _layers(args)
    settings = load_features(arguments, environment)
    if settings.output_file is None and settings.target is None:
        _print(settings, args)
    elif args.output:
        other = "--output-file" if settings.target is None else "--use-node-feature-api"
        raise UsageError(f"-o is a form of what is printed once, and {other} writes in rounds")
    else:
        asyncio.run(_keep_labels(lambda: load_features(arguments, environment), args.machine_root.absolute()))
    return 0


def _layers(args: argparse.Namespace) -> tuple[Layer, Layer]:
    given = {flag: getattr(args, f"{_PREFIX}{flag.key}") for flag in FEATURE_FLAGS}
    words = [f"--{flag.names[0]}={value}" for flag, value in given.items() if value is not None]
    return parse_arguments(words, FEATURE_FLAGS), parse_environment(os.environ, FEATURE_FLAGS)


def _print(settings: FeatureSettings, args: argparse.Namespace) -> None:
    now_s = int(SystemClock().now().timestamp())
    found = asyncio.run(find_labels(settings, args.machine_root.absolute(), timestamp_s=now_s))
    for warning in found.warnings:
        logger.warning("%s", warning)
    show(object_text(dict(found.labels), Form(args.output)) if args.output else feature_text(found.labels))


def _own_cluster() -> ClusterApi:
    # Imported here: a process that writes a file does without the megabytes of a client for HTTPS.
    from plugbay.ops.cluster import cluster_of

    return cluster_of(os.environ, "labels are to go to a NodeFeature object")


async def _keep_labels(load: Callable[[], FeatureSettings], root: Path) -> None:
    discovery = FeatureDiscovery(load, root, show=show, clock=SystemClock(), connect=_own_cluster)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        loop.add_signal_handler(number, discovery.stop)
    loop.add_signal_handler(signal.SIGHUP, discovery.reload)
    await discovery.run()
