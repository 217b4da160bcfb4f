"""``plugbay nvidia mps``: the MPS daemons of a node, as NVIDIA's mps-control-daemon keeps them."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Final

from plugbay.cli.arguments.options import add_log_options, path_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.printing.logs import configure_logs
from plugbay.plugins.nvidia.config import flags
from plugbay.plugins.nvidia.config.arguments import Layer, parse_flags
from plugbay.plugins.nvidia.mps.control import MpsControl
from plugbay.plugins.nvidia.mps.finding import find_plans
from plugbay.plugins.nvidia.mps.plan import MpsPlan
from plugbay.plugins.nvidia.mps.programs import MPS_ROOT, MpsPrograms
from plugbay.plugins.nvidia.mps.shared_memory import mount_shared_memory

_FLAGS: Final = {
    flags.CONFIG_FILE: "configuration file of NVIDIA's plugin, version v1; read again after SIGHUP",
    flags.MIG_STRATEGY: "how GPUs in MIG mode are offered; mixed is not possible with MPS",
    flags.CONTAINER_DRIVER_ROOT: "the driver's installation, as this process sees it",
    flags.CONFIG_DIALECT: "reference: the file is read as NVIDIA's plugin 0.20 does, with warnings; "
    "extended: unknown fields are errors, and all fields do what they say",
}
_PREFIX: Final = "mps_flag_"


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Run an MPS daemon for each resource that the configuration shares by MPS, until SIGTERM. A daemon that ends "
        "is started again; SIGHUP reads the configuration and starts all daemons anew, which ends the programs that "
        "use them. It takes root, and nvidia-cuda-mps-control and nvidia-smi of the driver.",
        examples=(
            "plugbay nvidia mps --mount-shm",
            "plugbay nvidia mps --config-file /etc/plugbay/nvidia.yaml",
        ),
        run=run,
    )
    for flag, text in _FLAGS.items():
        parser.add_argument(
            *(f"--{name}" for name in flag.names),
            dest=f"{_PREFIX}{flag.key}",
            metavar="VALUE",
            help=f"{text} (${', $'.join(flag.variables)})",
        )
    parser.add_argument(
        "--mps-directory",
        metavar="DIR",
        type=path_of,
        default=MPS_ROOT,
        help="where the daemons' directories are; the host's directory --mps-root of the plugin (default: %(default)s)",
    )
    parser.add_argument(
        "--mount-shm",
        action="store_true",
        help="mount the memory that daemons and clients share at shm in that directory, and end",
    )
    parser.add_argument(
        "--machine-root",
        metavar="DIR",
        type=path_of,
        default=Path("/"),
        help="where the files of the machine are: /sys, and those of the driver (default: %(default)s)",
    )
    add_log_options(parser)


def run(args: argparse.Namespace) -> int:
    """Keep the daemons until a signal, or mount their memory."""
    configure_logs(args.log_level, sys.stderr, form=args.log_format)
    directory = args.mps_directory.absolute()
    if args.mount_shm:
        mount_shared_memory(directory / "shm")
        return 0
    given = {flag: getattr(args, f"{_PREFIX}{flag.key}") for flag in _FLAGS}
    words = [f"--{flag.names[0]}={value}" for flag, value in given.items() if value is not None]
    arguments, environment = parse_flags([f"--{flags.MPS_ROOT.names[0]}={directory}", *words], os.environ)
    asyncio.run(_keep(arguments, environment, directory, args.machine_root.absolute()))
    return 0


async def _keep(arguments: Layer, environment: Layer, directory: Path, root: Path) -> None:
    async def find() -> tuple[MpsPlan, ...]:
        return await find_plans(arguments, environment, root)

    await asyncio.to_thread(directory.mkdir, parents=True, exist_ok=True)
    control = MpsControl(find, directory, MpsPrograms(dict(os.environ)))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        loop.add_signal_handler(number, control.stop)
    loop.add_signal_handler(signal.SIGHUP, control.reload)
    await control.run()
