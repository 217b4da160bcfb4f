"""What the ``plugbay cni`` commands do, but for ``validate``."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from plugbay.cli import cni_arguments as arguments
from plugbay.cli.output import show, show_error, show_note
from plugbay.cli.table import NONE, Columns
from plugbay.cni.answers import PluginVersions
from plugbay.cni.cached import CachedResult
from plugbay.cni.chain import DEFAULT_IFNAME, Attachment
from plugbay.cni.config import NetworkConfig
from plugbay.cni.directory import config_files, load_file
from plugbay.cni.result_encoding import encode
from plugbay.cni.runtime import CniRuntime
from plugbay.cni.versions import SUPPORTED
from plugbay.errors import NetworkPluginFailed, NetworkPluginMissing, PlugbayError, UsageError
from plugbay.kernel.netns import make_netns, remove_netns
from plugbay.node.network import add_loopback, remove_loopback

_FAILED: Final = 1
_INDENT: Final = 4
"""As plugins print."""


def add(args: argparse.Namespace) -> int:
    network = arguments.network(args)
    attachment = Attachment(
        args.container,
        arguments.namespace(args.netns),
        args.ifname or DEFAULT_IFNAME,
        arguments.plugin_args(args),
        arguments.capabilities(args),
    )
    return _run(args, _add(arguments.runtime(args), network, attachment, args))


async def _add(runtime: CniRuntime, network: NetworkConfig, attachment: Attachment, args: argparse.Namespace) -> int:
    if any(each.network == network.name for each in _remembered(runtime, attachment)):
        # Undoing this one would undo that one.
        raise UsageError(f"container {args.container} is on network {network.name} already; see `plugbay cni del`")
    netns = Path(attachment.netns)
    if args.make_netns:
        make_netns(netns, proc_root=arguments.PROC)
    try:
        if args.loopback:
            await add_loopback(runtime, attachment, proc_root=arguments.PROC)
        result = await runtime.attach(network, attachment)
    except BaseException as error:
        if not isinstance(error, NetworkPluginMissing):  # then nothing was done
            await _undo(runtime, network, attachment)
        if args.loopback:
            await remove_loopback(runtime, attachment)
        if args.make_netns:
            remove_netns(netns)
        raise
    _show_json(encode(result))
    return 0


async def _undo(runtime: CniRuntime, network: NetworkConfig, attachment: Attachment) -> None:
    try:
        await runtime.detach(network, attachment)
    except PlugbayError as error:
        show_error(f"what was done cannot be undone: {error}")


def delete(args: argparse.Namespace) -> int:
    return _run(args, _delete(arguments.runtime(args), args))


async def _delete(runtime: CniRuntime, args: argparse.Namespace) -> int:
    netns = None if args.netns is None else arguments.namespace(args.netns)
    remembered = [
        each for each in runtime.cache.entries_of(args.container) if args.ifname in (None, each.attachment.ifname)
    ]
    says_how = args.network or args.args or args.capability or args.port or args.annotation
    if remembered and not says_how:
        await runtime.detach_cached(args.container, netns=netns, ifname=args.ifname)
    else:
        network = arguments.network(args)
        await runtime.detach(network, _attachment(runtime, args, network))
    if args.remove_netns:
        for path in sorted({netns} if netns else {each.attachment.netns for each in remembered} - {""}):
            remove_netns(Path(path))
    return 0


def check(args: argparse.Namespace) -> int:
    return _run(args, _check(arguments.runtime(args), args))


async def _check(runtime: CniRuntime, args: argparse.Namespace) -> int:
    network = arguments.network(args)
    await runtime.check(network, _attachment(runtime, args, network))
    return 0


def collect_garbage(args: argparse.Namespace) -> int:
    network = arguments.network(args)
    runtime = arguments.runtime(args)
    return _run(args, _collect_garbage(runtime, network, arguments.kept(args)))


async def _collect_garbage(runtime: CniRuntime, network: NetworkConfig, kept: Sequence[tuple[str, str]]) -> int:
    failed = await runtime.collect_garbage(network, kept)
    for error in failed:
        show_error(error)
    return _FAILED if failed else 0


def status(args: argparse.Namespace) -> int:
    return _run(args, _status(arguments.runtime(args), args))


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
        _show_json([each.document for each in found])
    else:
        show(Columns(("NETWORK", "VERSION", "PLUGINS", "READY", "REASON")).table(each.row for each in found))
    return _FAILED if any(each.reason for each in found) else 0


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
    return _run(args, _version(args))


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
        _show_json(
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
    return 0 if len(told) == len(names) else _FAILED


def _remembered(runtime: CniRuntime, attachment: Attachment) -> list[CachedResult]:
    entries = runtime.cache.entries_of(attachment.container_id)
    return [each for each in entries if each.attachment.ifname == attachment.ifname]


def _attachment(runtime: CniRuntime, args: argparse.Namespace, network: NetworkConfig) -> Attachment:
    """The attachment that the arguments mean: what they leave open is as it was when it was made."""
    found = Attachment(args.container, "", args.ifname or DEFAULT_IFNAME)
    for each in _remembered(runtime, found):
        if each.network == network.name:
            found = each.attachment
    if args.netns is not None:
        found = replace(found, netns=arguments.namespace(args.netns))
    if given := arguments.plugin_args(args):
        found = replace(found, args=given)
    return replace(found, capabilities={**found.capabilities, **arguments.capabilities(args)})


def _run(args: argparse.Namespace, work: Coroutine[None, None, int]) -> int:
    """Run ``work`` to its end; with ``-o json`` a plugin's error goes to the output, as plugins themselves tell it."""
    # What plugins say beside their answer is for whoever called us.
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        return asyncio.run(work)
    except NetworkPluginFailed as error:
        if args.output:
            details = {"details": error.details} if error.details else {}
            _show_json({"code": error.code, "msg": error.message, **details})
        raise


def _show_json(value: object) -> None:
    show(json.dumps(value, indent=_INDENT, ensure_ascii=False) + "\n")
