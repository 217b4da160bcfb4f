"""``plugbay cni``: attach containers to networks, and look after the configuration."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

from plugbay.cli.command_parser import CommandParser, Subparsers, add_commands
from plugbay.cli.parsing import duration_s, file_of, path_of

_CONFIG: Final = "/etc/cni/net.d"
_CACHE: Final = "/var/lib/cni"
_BINARIES: Final = ("/opt/cni/bin", "/usr/lib/cni")
"""Where engines look, and where Debian's package puts them."""
_ENGINES: Final = ("containerd-1", "containerd-2", "plugbay")
"""As `plugbay.cni.structure.Engine`, which the command's help can do without."""
_MAX_TIMEOUT_S: Final = 3600.0


def add_parser(subparsers: Subparsers) -> None:
    subparsers.add_parser(
        "cni",
        fill=_add_commands,
        help="attach containers to CNI networks, and check their configuration",
        description="Attach containers to networks as a container engine does it: by the Container Network Interface, "
        "versions 0.1.0 to 1.1.0.",
        examples=(
            "plugbay cni validate",
            "plugbay cni add c1 --netns web --make-netns --port 8080:80",
            "plugbay cni del c1 --remove-netns",
        ),
    )


def _add_commands(parser: CommandParser) -> None:
    commands = add_commands(parser, dest="cni_command")
    for add in (_add_add, _add_del, _add_check, _add_gc, _add_status, _add_version, _add_validate):
        add(commands)


def run(args: argparse.Namespace) -> int:
    # Imported here: --help does not pay for it.
    from plugbay.cli import cni_commands, cni_validate

    match args.cni_command:
        case "add":
            return cni_commands.add(args)
        case "del":
            return cni_commands.delete(args)
        case "check":
            return cni_commands.check(args)
        case "gc":
            return cni_commands.collect_garbage(args)
        case "status":
            return cni_commands.status(args)
        case "version":
            return cni_commands.version(args)
        case "validate":
            return cni_validate.validate(args)
        case other:
            raise AssertionError(other)


def _add_add(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "add",
        help="attach a container to a network, and print the result",
        description="Run every plugin of a network with ADD. When one fails, what the others did is undone.",
        examples=(
            "ip netns add web && plugbay cni add c1 --netns web",
            "plugbay cni add c1 --netns web --make-netns --loopback --port 8080:80 --port 53:53/udp",
            "plugbay cni add c1 --netns web --annotation kubernetes.io/ingress-bandwidth=10M",
            """plugbay cni add c1 --netns web --capability 'mac="02:00:00:00:00:01"' --args K8S_POD_NAME=web""",
        ),
    )
    _add_container(parser)
    parser.add_argument(
        "--netns", metavar="NETNS", required=True, help="its network namespace: a path, or a name in /var/run/netns"
    )
    parser.add_argument("--make-netns", action="store_true", help="make the namespace first")
    parser.add_argument(
        "--loopback", action="store_true", help="bring up lo as well, with the loopback plugin if it is installed"
    )
    _add_arguments(parser)
    _add_machine(parser)
    _add_json(parser)


def _add_del(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "del",
        help="detach a container from a network",
        description="Run every plugin with DEL, in reverse order. Everything that is remembered of the container is "
        "undone, with what it was given then; --network and plugin arguments choose one network, and say otherwise. "
        "What is gone already is not an error.",
    )
    _add_container(parser)
    parser.add_argument("--netns", metavar="NETNS", help="its network namespace (default: the remembered one)")
    parser.add_argument("--remove-netns", action="store_true", help="remove the namespace afterwards")
    _add_arguments(parser)
    _add_machine(parser)
    _add_json(parser)


def _add_check(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "check",
        help="tell whether a container still has what it was given",
        description="Run every plugin with CHECK: exit with 0 if all is there, with 1 and the reason if not.",
    )
    _add_container(parser)
    parser.add_argument("--netns", metavar="NETNS", help="its network namespace (default: the remembered one)")
    _add_arguments(parser)
    _add_machine(parser)
    _add_json(parser)


def _add_gc(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "gc",
        help="remove what a network holds for containers that are gone",
        description="Detach every remembered container that is not named with --keep, and ask plugins of "
        "version 1.1.0 or later to do the same (GC).",
    )
    kept = parser.add_mutually_exclusive_group(required=True)
    kept.add_argument(
        "--keep",
        metavar="CONTAINER[:IFNAME]",
        action="append",
        default=[],
        help="an attachment that is in use (default interface: eth0); may be repeated",
    )
    kept.add_argument("--keep-none", action="store_true", help="nothing is in use")
    _add_network(parser)
    _add_machine(parser)
    _add_json(parser)


def _add_status(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "status",
        help="tell whether networks are ready to add containers",
        description="Show the networks of the configuration directory in their order; pods get the first. Plugins of "
        "version 1.1.0 are asked with STATUS. Exits with 1 if one that is shown is not ready.",
    )
    _add_network(parser, default="all of the configuration directory")
    _add_machine(parser)
    _add_json(parser)


def _add_version(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "version",
        help="show which versions of the specification plugins take",
        description="Ask plugins with VERSION. Exits with 1 if a plugin does not answer.",
    )
    parser.add_argument("plugins", metavar="PLUGIN", nargs="*", help="plugins (default: every one that is installed)")
    _add_machine(parser)
    _add_json(parser)


def _add_validate(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "validate",
        help="explain what is wrong with network configurations",
        description="Read configuration files as engines do and say what is wrong with them, where, and what to do: "
        "JSON, members, versions, binaries, capabilities, subnets, names and their order. Exits with 1 if there "
        "are errors; warnings are none.",
        examples=(
            "plugbay cni validate",
            "plugbay cni validate examples/cni/10-plugbay.conflist --engine containerd-1",
            "plugbay cni validate --pod pod.yaml",
        ),
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="*", help="configuration files (default: all of --conf-dir, in their order)"
    )
    parser.add_argument("--engine", choices=_ENGINES, help="the engine that shall use them (default: any)")
    parser.add_argument(
        "--pod", metavar="FILE", type=file_of, help="a manifest whose annotations and host ports must be served"
    )
    _add_wishes(parser)
    _add_machine(parser)
    _add_json(parser)


def _add_container(parser: CommandParser) -> None:
    parser.add_argument("container", metavar="CONTAINER", help="the container's ID")


def _add_network(parser: CommandParser, *, default: str = "the first of the configuration directory") -> None:
    parser.add_argument("--network", metavar="NETWORK", help=f"its name, or a configuration file (default: {default})")


def _add_arguments(parser: CommandParser) -> None:
    """What identifies an attachment besides container and namespace, and what plugins are told of it."""
    _add_network(parser)
    parser.add_argument("--ifname", metavar="NAME", help="the interface in the container (default: eth0)")
    parser.add_argument(
        "--args", metavar="K=V", action="append", default=[], help="for CNI_ARGS; may be repeated, or joined by ';'"
    )
    parser.add_argument(
        "--capability",
        metavar="NAME=JSON",
        action="append",
        default=[],
        help="a capability argument, such as 'ips=[\"10.22.0.9\"]'; may be repeated",
    )
    _add_wishes(parser)


def _add_wishes(parser: CommandParser) -> None:
    parser.add_argument(
        "--port",
        metavar="[IP:]HOST:CONTAINER[/PROTOCOL]",
        action="append",
        default=[],
        help="a port of the host that is forwarded; may be repeated",
    )
    parser.add_argument(
        "--annotation",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a pod's annotation; only those that limit the bandwidth matter; may be repeated",
    )


def _add_machine(parser: CommandParser) -> None:
    """Where things lie."""
    parser.add_argument(
        "--conf-dir",
        metavar="DIR",
        type=path_of,
        default=Path(os.environ.get("NETCONFPATH") or _CONFIG),
        help=f"configuration files (default: $NETCONFPATH, else {_CONFIG})",
    )
    parser.add_argument(
        "--bin-dir",
        metavar="DIR",
        type=path_of,
        action="append",
        help=f"plugin binaries; may be repeated (default: $CNI_PATH, else {' and '.join(_BINARIES)})",
    )
    parser.add_argument(
        "--cache-dir",
        metavar="DIR",
        type=path_of,
        default=Path(_CACHE),
        help="remembered results (default: %(default)s)",
    )
    parser.add_argument(
        "--timeout",
        metavar="TIME",
        type=_timeout_s,
        default=60.0,
        help="for one call of one plugin, which is killed then (default: 1m)",
    )


def _add_json(parser: CommandParser) -> None:
    parser.add_argument(
        "-o", "--output", choices=("json",), default="", help="print JSON, an error of a plugin included"
    )


def _timeout_s(text: str) -> float:
    seconds = duration_s(text)
    if not 0 < seconds <= _MAX_TIMEOUT_S:
        raise argparse.ArgumentTypeError(f"wants a time above 0 and up to 1h, found {text!r}")
    return seconds


def binary_directories(args: argparse.Namespace) -> list[Path]:
    """Where plugins are looked for."""
    if args.bin_dir:
        return list(args.bin_dir)
    path = os.environ.get("CNI_PATH", "")
    return [Path(each) for each in path.split(":") if each] or [Path(each) for each in _BINARIES]
