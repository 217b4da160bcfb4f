"""Arguments of ``plugbay cni``, as values."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import Final

from plugbay.cli.cni.options import binary_directories
from plugbay.cni.cache import ResultCache
from plugbay.cni.chain import DEFAULT_IFNAME
from plugbay.cni.config import NetworkConfig
from plugbay.cni.directory import load_default, load_file, load_named
from plugbay.cni.invoke import Plugins
from plugbay.cni.runtime import CniRuntime
from plugbay.documents import JsonObject, JsonValue
from plugbay.documents.go_json import NotJson, parse_plain
from plugbay.errors import UsageError
from plugbay.kernel.files import write_durably
from plugbay.model.ports import ContainerPort, Protocol
from plugbay.runtimes.oci.network_request import capabilities_of

PROC: Final = Path("/proc")
_NAMED: Final = Path("/var/run/netns")
_PORT: Final = re.compile(
    r"(?:(?P<ip>[0-9.]+|\[[0-9a-fA-F:.]+\]):)?(?P<host>[0-9]{1,5}):(?P<container>[0-9]{1,5})(?:/(?P<protocol>\w+))?",
    re.ASCII,
)


def plugins(args: argparse.Namespace) -> Plugins:
    """The installed plugins; they inherit our environment."""
    return Plugins(binary_directories(args), environ=os.environ, timeout_s=args.timeout)


def runtime(args: argparse.Namespace) -> CniRuntime:
    return CniRuntime(plugins(args), ResultCache(args.cache_dir.absolute(), write=write_durably))


def network(args: argparse.Namespace) -> NetworkConfig:
    """The network that the arguments name, else the first one.

    Raises:
        NetworkNotFound, InvalidNetworkConfig: there is none.
    """
    name = args.network
    if name is None:
        return load_default(args.conf_dir)
    return load_file(Path(name)) if "/" in name else load_named(args.conf_dir, name)


def namespace(text: str) -> str:
    """A namespace's path, of which a name is a part."""
    return text if not text or "/" in text else str(_NAMED / text)


def plugin_args(args: argparse.Namespace) -> tuple[tuple[str, str], ...]:
    """The arguments for plugins that ``--args`` gives.

    Raises:
        UsageError: an argument is not a pair.
    """
    return tuple(_pair(each, "--args") for given in args.args for each in given.split(";") if each)


def capabilities(args: argparse.Namespace) -> JsonObject:
    """``--capability``, ``--port`` and ``--annotation`` together.

    Raises:
        UsageError: one cannot be read.
        InvalidBandwidth: an annotation is of no use.
    """
    given = dict(_pair(each, "--capability") for each in args.capability)
    return wishes(args) | {name: _json(name, text) for name, text in given.items()}


def wishes(args: argparse.Namespace) -> JsonObject:
    """``--port`` and ``--annotation``, as capability arguments.

    Raises:
        UsageError: one cannot be read.
        InvalidBandwidth: an annotation is of no use.
    """
    annotations = dict(_pair(each, "--annotation") for each in args.annotation)
    return capabilities_of(annotations, [_port(each) for each in args.port])


def kept(args: argparse.Namespace) -> list[tuple[str, str]]:
    """``--keep``."""
    parts = [each.partition(":") for each in args.keep]
    return [(container, ifname or DEFAULT_IFNAME) for container, _, ifname in parts]


def _port(text: str) -> ContainerPort:
    match = _PORT.fullmatch(text)
    problem = "wants [IP:]HOST:CONTAINER[/PROTOCOL], such as 8080:80"
    if match:
        try:
            return ContainerPort(
                int(match["container"]),
                int(match["host"]),
                Protocol((match["protocol"] or "tcp").upper()),
                (match["ip"] or "").strip("[]"),
            )
        except ValueError as error:
            problem = str(error)
    raise UsageError(f"--port {text}: {problem}")


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"{option} wants NAME=VALUE, found {text!r}")
    return name, value


def _json(name: str, text: str) -> JsonValue:
    try:
        return parse_plain(text.encode(errors="surrogateescape"))
    except NotJson as error:
        raise UsageError(f"--capability {name}: {error}") from None
