"""``nvidia``: the NVIDIA GPUs of the machine and their MIG devices, with the flags of NVIDIA's own plugin."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugbay.cli.arguments.options import path_of

if TYPE_CHECKING:
    from plugbay.plugins.nvidia.config.arguments import Layer
    from plugbay.plugins.nvidia.config.flags import ConfigFlag
    from plugbay.sdk.process.config import ConfigEntry
    from plugbay.sdk.process.sources import Member

SUMMARY: Final = "NVIDIA GPUs and MIG devices"
EXAMPLE: Final = "nvidia --mig-strategy mixed"
FILE_OPTIONS: Final = ("--config-file", "--config-file-srcdir")
_PREFIX: Final = "nvidia_flag_"
_HELP: Final = {
    "mig-strategy": "how GPUs in MIG mode are offered",
    "fail-on-init-error": "end when the driver or a GPU is not usable at the start, instead of looking again",
    "mps-root": "the host's directory of the MPS daemon",
    "driver-root": "the driver's installation on the host",
    "dev-root": "the directory that holds dev with the device nodes, on the host; the driver's by default",
    "pass-device-specs": "name the device nodes in answers, for kubelets with the static CPU manager",
    "gdrcopy-enabled": "give containers the devices of GDRCopy",
    "gds-enabled": "give containers the devices of GPUDirect Storage",
    "mofed-enabled": "give containers the devices of MOFED",
    "device-discovery-strategy": "where devices are looked for",
    "device-list-strategy": "how a container learns of its devices; several with commas between them",
    "device-id-strategy": "the names by which answers call devices",
    "cdi-annotation-prefix": "the beginning of the key of CDI annotations",
    "nvidia-cdi-hook-path": "the program of CDI hooks on the host",
    "driver-root-ctr-path": "the driver's installation, as this process sees it",
    "shared-devices-allocation-policy": "how replicas and MIG devices are chosen",
    "imex-channel-ids": "IMEX channels that every container gets: none, or 0",
    "imex-required": "whether a missing IMEX channel is an error",
    "kubelet-socket": "the kubelet's socket; only its directory counts, as with --kubelet-root",
    "config-file": "configuration file of NVIDIA's plugin, version v1; read again whenever it changes",
    "cdi-feature-flags": "features of CDI specs, with commas between them",
    "cdi-disable-hooks": "hooks that CDI specs do not have, with commas between them, or all",
    "config-dialect": "reference: the file is read as NVIDIA's plugin 0.20 does, with warnings; "
    "extended: unknown fields are errors, and all fields do what they say",
    "config-file-srcdir": "directory of configuration files, of which a label of the node names one",
    "default-config": "name of the file for a node without the label",
    "fallback-strategies": "what a node without label and default gets, in order: named, single, empty",
    "node-label": "the label that names the file",
    "node-name": "the node whose label counts",
    "health-recovery": "how a device comes back after an XID",
    "health-clean-time": "the time without an XID after which a device may come back",
    "rescan-interval": "how often the machine is looked at while nothing happens",
}


def add_options(parser: argparse._ActionsContainer) -> None:
    for flag in _flags():
        _add_flag(parser, flag)
    parser.add_argument(
        "--machine-root",
        metavar="DIR",
        type=path_of,
        default=Path("/"),
        help="where the files of the machine are: /dev, /proc, /sys, and those of the driver (default: %(default)s)",
    )


def _flags() -> Sequence[ConfigFlag]:
    from plugbay.plugins.nvidia.config.flags import PLUGIN_FLAGS

    return [flag for flag in PLUGIN_FLAGS if flag.names]


def _add_flag(parser: argparse._ActionsContainer, flag: ConfigFlag) -> None:
    """Add a flag. Its value is checked with those of the environment and the file, so any text goes."""
    from plugbay.plugins.nvidia.config.flags import FlagKind

    parts = [_HELP[flag.names[0]]]
    if flag.allowed:
        parts.append(f"one of {', '.join(flag.allowed)}")
    if isinstance(flag.default, str) and flag.default:
        parts.append(f"default {flag.default}")
    is_boolean = flag.kind is FlagKind.BOOLEAN
    parser.add_argument(
        *(f"--{name}" for name in flag.names),
        dest=f"{_PREFIX}{flag.names[0]}",
        action="append",
        nargs="?" if is_boolean else None,
        const="true" if is_boolean else None,
        metavar="true|false" if is_boolean else "VALUE",
        help=f"{'; '.join(parts)} (${', $'.join(flag.variables)})".replace("%", "%%"),
    )


def begin(args: argparse.Namespace) -> None:
    """Start the worker that asks the driver."""
    from plugbay.plugins.nvidia.nvml.starting import spawn_nvml_worker

    with contextlib.suppress(OSError):  # told when the driver is asked
        args.early_worker = spawn_nvml_worker()


def from_options(args: argparse.Namespace) -> Sequence[Member]:
    import os

    from plugbay.errors import UsageError
    from plugbay.plugins.nvidia.serving.settings import NodeSettings
    from plugbay.plugins.nvidia.serving.source import NvidiaSource
    from plugbay.sdk.cdi.directory import CDI_DIRECTORY

    words = [
        f"--{flag.names[0]}={value}" for flag in _flags() for value in getattr(args, f"{_PREFIX}{flag.names[0]}") or ()
    ]
    arguments, environment = _layers(words)
    _choose_kubelet(args, arguments, environment)
    directory = getattr(args, "cdi_directory", None) or CDI_DIRECTORY
    root = args.machine_root.absolute()
    elsewhere = getattr(args, "elsewhere", False)
    if elsewhere and root != Path("/"):
        raise UsageError("--machine-root: the pods have the machine's files at /")
    settings = NodeSettings(arguments, environment, dict(os.environ), root, directory.absolute(), elsewhere)
    return [NvidiaSource(settings, early=getattr(args, "early_worker", None))]


def _layers(words: Sequence[str]) -> tuple[Layer, Layer]:
    """The settings of flags and of the environment.

    Raises:
        InvalidNvidiaConfig: a value cannot be read. It is no misuse of ours: NVIDIA's plugin exits with 1 then.
    """
    import os

    from plugbay.plugins.nvidia.config.arguments import parse_arguments, parse_environment
    from plugbay.plugins.nvidia.config.places import COMMAND_LINE, ENVIRONMENT

    with _as_configuration(ENVIRONMENT):
        environment = parse_environment(os.environ)
    with _as_configuration(COMMAND_LINE):
        return parse_arguments(words), environment


@contextlib.contextmanager
def _as_configuration(source: str) -> Iterator[None]:
    from plugbay.errors import InvalidNvidiaConfig, UsageError

    try:
        yield
    except UsageError as error:
        raise InvalidNvidiaConfig(str(error), source=source) from error


def _choose_kubelet(args: argparse.Namespace, arguments: Layer, environment: Layer) -> None:
    """Take the kubelet's directory from ``--kubelet-socket``, unless ``--root`` or ``--node`` names it.

    Raises:
        UsageError: the socket is not where kubelets have it.
    """
    from plugbay.errors import UsageError
    from plugbay.plugins.nvidia.config.flags import KUBELET_SOCKET

    given = arguments.get(KUBELET_SOCKET.key) or environment.get(KUBELET_SOCKET.key)
    if given is None or given.value == KUBELET_SOCKET.default or args.root is not None or getattr(args, "node", False):
        return
    socket = Path(str(given.value))
    if socket.name != "kubelet.sock" or socket.parent.name != "device-plugins":
        raise UsageError(
            f"--kubelet-socket {given.value}: a kubelet listens at DIR/device-plugins/kubelet.sock, and plugbay does "
            "not serve without registering"
        )
    args.root = str(socket.parent.parent)


def from_settings(entry: ConfigEntry, directory: Path, *, pod: Path | None) -> Sequence[Member]:
    """The settings are the flags without their dashes, such as ``mig-strategy: mixed``; the environment counts too."""
    import os

    from plugbay.plugins.nvidia.serving.settings import NodeSettings
    from plugbay.plugins.nvidia.serving.source import NvidiaSource

    files = {option.removeprefix("--") for option in FILE_OPTIONS}
    texts = {name: _text(value) for name, value in entry.settings.items()}
    texts |= {name: str(directory / text) for name, text in texts.items() if name in files and text}
    arguments, environment = _layers([f"--{name}={text}" for name, text in texts.items()])
    settings = NodeSettings(arguments, environment, dict(os.environ), elsewhere=pod is not None)
    return [NvidiaSource(settings)]


def _text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
