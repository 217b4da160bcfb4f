"""``plugbay cni status`` and ``plugbay cni version``: readiness of networks, and versions of plugins."""

from __future__ import annotations

import argparse

from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.cni import values as arguments
from plugbay.cli.cni.options import add_json, add_machine, add_network
from plugbay.cli.cni.outcome import FAILED, run, show_json
from plugbay.cli.printing.output import show, show_error, show_note
from plugbay.cli.printing.table import NONE, Columns
from plugbay.cni.answers import PluginVersions
from plugbay.cni.config import NetworkConfig
from plugbay.cni.directory import config_files, load_file
from plugbay.cni.runtime import CniRuntime
from plugbay.cni.versions import SUPPORTED
from plugbay.errors import PlugbayError
from plugbay.values import dataclass


def declare_status(parser: CommandParser) -> None:
    parser.describe(
        "Show the networks of the configuration directory in their order; pods get the first. Plugins of "
        "version 1.1.0 are asked with STATUS. Exits with 1 if one that is shown is not ready.",
        run=status,
    )
    add_network(parser, default="all of the configuration directory")
    add_machine(parser)
    add_json(parser)


def declare_version(parser: CommandParser) -> None:
    parser.describe(
        "Ask plugins with VERSION. Exits with 1 if a plugin does not answer.",
        run=version,
    )
    parser.add_argument("plugins", metavar="PLUGIN", nargs="*", help="plugins (default: every one that is installed)")
    add_machine(parser)
    add_json(parser)


def status(args: argparse.Namespace) -> int:
    return run(args, _status(arguments.runtime(args), args))


async def _status(runtime: CniRuntime, args: argparse.Namespace) -> int:
    networks: list[NetworkConfig | PlugbayError] = []
    for path in config_files(args.conf_dir) if args.network is None else ():
        try:
            networks.append(load_file(path))
        except PlugbayError as error:
            networks.append(error)
    if not networks:
        networks = [arguments.network(args)]
    found = [await _readiness(runtime, each) for each in networks]
    if args.output:
        show_json([each.document for each in found])
    else:
        show(Columns(("NETWORK", "VERSION", "PLUGINS", "READY", "REASON")).table(each.row for each in found))
    return FAILED if any(each.reason for each in found) else 0


@dataclass(frozen=True, slots=True)
class _Readiness:
    """Whether a network can take containers.

    Attributes:
        network: None when its file is of no use.
        reason: why it cannot; empty when it can.
    """

    network: NetworkConfig | None
    reason: str

    @property
    def plugins(self) -> list[str]:
        return [each.type for each in self.network.plugins] if self.network else []

    @property
    def row(self) -> tuple[str, ...]:
        name, version = (self.network.name, self.network.version) if self.network else (NONE, NONE)
        return name, version, ",".join(self.plugins) or NONE, str(not self.reason), self.reason

    @property
    def document(self) -> dict[str, object]:
        network = self.network
        told: dict[str, object] = {"ready": not self.reason, "reason": self.reason, "plugins": self.plugins}
        return told | ({"network": network.name, "cniVersion": network.version} if network else {})


async def _readiness(runtime: CniRuntime, network: NetworkConfig | PlugbayError) -> _Readiness:
    if isinstance(network, PlugbayError):
        return _Readiness(None, str(network))
    if network.version not in SUPPORTED:
        # Plugins take a STATUS in a version they do not know for something else, and miss what that needs.
        known = ", ".join(SUPPORTED)
        problem = f"{network.version} is not a version of the CNI specification that plugbay knows; there are {known}"
        return _Readiness(network, problem)
    try:
        for plugin in network.plugins:
            runtime.plugins.find(plugin.type)
        await runtime.status(network)
    except PlugbayError as error:
        return _Readiness(network, str(error))
    return _Readiness(network, "")


def version(args: argparse.Namespace) -> int:
    return run(args, _version(args))


async def _version(args: argparse.Namespace) -> int:
    plugins = arguments.plugins(args)
    names = args.plugins or plugins.installed()
    answers: list[PluginVersions | PlugbayError] = []
    for name in names:
        try:
            answers.append(await plugins.versions(name))
        except PlugbayError as error:
            answers.append(error)
    told = [(name, answer) for name, answer in zip(names, answers, strict=True) if isinstance(answer, PluginVersions)]
    if args.output:
        show_json(
            [
                {"plugin": name, "cniVersion": answer.newest, "supportedVersions": list(answer.supported)}
                for name, answer in told
            ]
        )
    elif told:
        show(Columns(("PLUGIN", "VERSIONS")).table((name, ", ".join(answer.supported)) for name, answer in told))
    elif not names:
        show_note("No CNI plugins found.")
    for answer in answers:
        if isinstance(answer, PlugbayError):
            show_error(answer)
    return 0 if len(told) == len(names) else FAILED
