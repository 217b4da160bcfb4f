"""Options of the runtimes that containers run in."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugbay.cli.arguments.options import at_least, path_of
from plugbay.errors import UsageError

if TYPE_CHECKING:
    from plugbay.node.config import CriConfig, OciConfig
    from plugbay.runtimes.logs.files import LogLimits

_CDI_DIRECTORIES: Final = "/etc/cdi,/var/run/cdi"
_CNI_BINARIES: Final = "/opt/cni/bin,/usr/lib/cni"
_OF_CRI_TOO: Final = ("cdi_spec_dirs",)
_OF_OCI: Final = ("oci_engine", "oci_rootfs", "cdi_spec_dirs", "cni_conf_dir", "cni_bin_dir")


def add_runtime_options(parser: argparse.ArgumentParser) -> None:
    """Add the choice of the runtime, and the options of each."""
    parser.add_argument(
        "--runtime",
        choices=("auto", "process", "oci", "cri"),
        default="auto",
        help="what containers are: plain processes on the host, or real ones made by crun or runc, or by containerd "
        "or CRI-O; auto is oci where crun or runc works, which takes no root rights, and process elsewhere (default: "
        "%(default)s)",
    )
    group = parser.add_argument_group("options of --runtime oci")
    group.add_argument(
        "--oci-engine",
        metavar="NAME|PATH",
        help="the engine (default: the first of crun and runc that works on this machine)",
    )
    group.add_argument(
        "--oci-rootfs",
        metavar="DIR",
        type=path_of,
        help="the root file system of containers, which see it read-only (default: the host's programs: /usr, /opt "
        "and files of /etc that are not secret)",
    )
    group.add_argument(
        "--cdi-spec-dirs",
        metavar="DIR,...",
        help=f"where CDI specs are, later ones stronger (default: {_CDI_DIRECTORIES})",
    )
    group.add_argument(
        "--cni-conf-dir",
        metavar="DIR",
        type=path_of,
        help="put pods on the network that the first configuration in DIR describes (default: the host's network)",
    )
    group.add_argument("--cni-bin-dir", metavar="DIR,...", help=f"where network plugins are (default: {_CNI_BINARIES})")

    cri = parser.add_argument_group("options of --runtime cri")
    cri.add_argument(
        "--cri-socket",
        metavar="PATH",
        type=_socket_of,
        help="where the engine answers; unix:// may stand before it (default: the socket of containerd or CRI-O, "
        "whichever is there)",
    )
    cri.add_argument(
        "--on-kubelet-engine",
        choices=("refuse", "use"),
        default="refuse",
        help="what to do about an engine that a kubelet has, which ends every pod there that it does not know: not "
        "start, or warn and use it (default: %(default)s)",
    )


def add_container_log_options(parser: argparse.ArgumentParser) -> None:
    """Add the limits for the logs of containers, with a kubelet's names and defaults."""
    parser.add_argument(
        "--container-log-max-size",
        metavar="SIZE",
        type=_size_of,
        default="10Mi",
        help="begin another file when the log of a container is so large (default: %(default)s)",
    )
    parser.add_argument(
        "--container-log-max-files",
        metavar="N",
        type=at_least(2),
        default=5,
        help="keep so many files of the log of a container, and drop the oldest (default: %(default)s)",
    )


def log_limits(args: argparse.Namespace) -> LogLimits:
    """The limits for logs, from the options."""
    from plugbay.runtimes.logs.files import LogLimits

    return LogLimits(_bytes_in(args.container_log_max_size), args.container_log_max_files)


def _size_of(text: str) -> str:
    """An amount of bytes, as text; for ``type=`` of an argument. Only a node that starts parses it."""
    if not re.fullmatch(r"[0-9]{1,15}(?:[kMGT]|[KMGT]i)?", text) or not _bytes_in(text):
        raise argparse.ArgumentTypeError(f"wants a size such as 10Mi, found {text!r}")
    return text


def _bytes_in(text: str) -> int:
    from plugbay.model.quantity import Quantity

    return Quantity.parse(text).to_int_ceil()


def cri_config(args: argparse.Namespace) -> CriConfig | None:
    """The configuration of the cri runtime, from the options; None if another runtime was chosen.

    Raises:
        UsageError: an option was given that the chosen runtime does not have.
    """
    from plugbay.node.config import CriConfig, KubeletEngine

    if args.runtime != "cri":
        if args.cri_socket is not None:
            raise UsageError("--cri-socket needs --runtime cri")
        return None
    return CriConfig(
        args.cri_socket and args.cri_socket.absolute(),
        _paths(args.cdi_spec_dirs or _CDI_DIRECTORIES),
        KubeletEngine(args.on_kubelet_engine),
    )


def oci_config(args: argparse.Namespace) -> OciConfig | None:
    """The configuration of the oci runtime, from the options; None if another runtime was chosen.

    Raises:
        UsageError: an option was given that the chosen runtime does not have.
    """
    from plugbay.node.config import OciConfig

    if args.runtime not in ("oci", "auto"):
        shared = _OF_CRI_TOO if args.runtime == "cri" else ()
        given = [name for name in _OF_OCI if getattr(args, name) is not None and name not in shared]
        if given:
            option = "--" + given[0].replace("_", "-")
            why = "the engine has settings of its own" if shared else "the process runtime confines nothing"
            raise UsageError(f"{option} needs --runtime oci: {why}")
        return None
    return OciConfig(
        args.oci_engine,
        args.oci_rootfs and args.oci_rootfs.absolute(),
        _paths(args.cdi_spec_dirs or _CDI_DIRECTORIES),
        args.cni_conf_dir and args.cni_conf_dir.absolute(),
        _paths(args.cni_bin_dir or _CNI_BINARIES),
    )


def may_be_process(args: argparse.Namespace) -> bool:
    """Whether the node may run plain processes where no OCI engine works: no option asks for such an engine."""
    return args.runtime == "auto" and all(getattr(args, name) is None for name in _OF_OCI)


def _socket_of(text: str) -> Path:
    scheme, mark, path = text.partition("://")
    if mark and scheme != "unix":
        raise argparse.ArgumentTypeError(f"takes unix sockets only, found {text!r}")
    return path_of(path if mark else text)


def _paths(text: str) -> tuple[Path, ...]:
    return tuple(Path(each).absolute() for each in text.split(",") if each)
