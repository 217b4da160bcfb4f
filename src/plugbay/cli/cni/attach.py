"""``plugbay cni add``, ``del``, ``check`` and ``gc``: attach containers to networks, and detach them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.cni import values as arguments
from plugbay.cli.cni.options import add_arguments, add_container, add_json, add_machine, add_network
from plugbay.cli.cni.outcome import FAILED, run, show_json
from plugbay.cli.printing.output import show_error
from plugbay.cni.cached import CachedResult
from plugbay.cni.chain import DEFAULT_IFNAME, Attachment
from plugbay.cni.config import NetworkConfig
from plugbay.cni.result_encoding import encode
from plugbay.cni.runtime import CniRuntime
from plugbay.errors import NetworkPluginMissing, PlugbayError, UsageError
from plugbay.kernel.netns import make_netns, remove_netns
from plugbay.runtimes.oci.network import add_loopback, remove_loopback


def declare_add(parser: CommandParser) -> None:
    parser.describe(
        "Run every plugin of a network with ADD. When one fails, what the others did is undone.",
        examples=(
            "ip netns add web && plugbay cni add c1 --netns web",
            "plugbay cni add c1 --netns web --make-netns --loopback --port 8080:80 --port 53:53/udp",
            "plugbay cni add c1 --netns web --annotation kubernetes.io/ingress-bandwidth=10M",
            """plugbay cni add c1 --netns web --capability 'mac="02:00:00:00:00:01"' --args K8S_POD_NAME=web""",
        ),
        run=add,
    )
    add_container(parser)
    parser.add_argument(
        "--netns", metavar="NETNS", required=True, help="its network namespace: a path, or a name in /var/run/netns"
    )
    parser.add_argument("--make-netns", action="store_true", help="make the namespace first")
    parser.add_argument(
        "--loopback", action="store_true", help="bring up lo as well, with the loopback plugin if it is installed"
    )
    add_arguments(parser)
    add_machine(parser)
    add_json(parser)


def declare_del(parser: CommandParser) -> None:
    parser.describe(
        "Run every plugin with DEL, in reverse order. Everything that is remembered of the container is "
        "undone, with what it was given then; --network and plugin arguments choose one network, and say otherwise. "
        "What is gone already is not an error.",
        run=delete,
    )
    add_container(parser)
    parser.add_argument("--netns", metavar="NETNS", help="its network namespace (default: the remembered one)")
    parser.add_argument("--remove-netns", action="store_true", help="remove the namespace afterwards")
    add_arguments(parser)
    add_machine(parser)
    add_json(parser)


def declare_check(parser: CommandParser) -> None:
    parser.describe(
        "Run every plugin with CHECK: exit with 0 if nothing is missing, with 1 and the reason if something is.",
        run=check,
    )
    add_container(parser)
    parser.add_argument("--netns", metavar="NETNS", help="its network namespace (default: the remembered one)")
    add_arguments(parser)
    add_machine(parser)
    add_json(parser)


def declare_gc(parser: CommandParser) -> None:
    parser.describe(
        "Detach every remembered container that is not named with --keep, and ask plugins of "
        "version 1.1.0 or later to do the same (GC).",
        run=collect_garbage,
    )
    kept = parser.add_mutually_exclusive_group(required=True)
    kept.add_argument(
        "--keep",
        metavar="CONTAINER[:IFNAME]",
        action="append",
        default=[],
        help="an attachment that is in use (default interface: eth0); may be repeated",
    )
    kept.add_argument("--keep-none", action="store_true", help="no attachment is in use")
    add_network(parser)
    add_machine(parser)
    add_json(parser)


def add(args: argparse.Namespace) -> int:
    network = arguments.network(args)
    attachment = Attachment(
        args.container,
        arguments.namespace(args.netns),
        args.ifname or DEFAULT_IFNAME,
        arguments.plugin_args(args),
        arguments.capabilities(args),
    )
    return run(args, _add(arguments.runtime(args), network, attachment, args))


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
    show_json(encode(result))
    return 0


async def _undo(runtime: CniRuntime, network: NetworkConfig, attachment: Attachment) -> None:
    try:
        await runtime.detach(network, attachment)
    except PlugbayError as error:
        show_error(f"what was done cannot be undone: {error}")


def delete(args: argparse.Namespace) -> int:
    return run(args, _delete(arguments.runtime(args), args))


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
    return run(args, _check(arguments.runtime(args), args))


async def _check(runtime: CniRuntime, args: argparse.Namespace) -> int:
    network = arguments.network(args)
    await runtime.check(network, _attachment(runtime, args, network))
    return 0


def collect_garbage(args: argparse.Namespace) -> int:
    network = arguments.network(args)
    runtime = arguments.runtime(args)
    return run(args, _collect_garbage(runtime, network, arguments.kept(args)))


async def _collect_garbage(runtime: CniRuntime, network: NetworkConfig, kept: Sequence[tuple[str, str]]) -> int:
    failed = await runtime.collect_garbage(network, kept)
    for error in failed:
        show_error(error)
    return FAILED if failed else 0


def _remembered(runtime: CniRuntime, attachment: Attachment) -> list[CachedResult]:
    entries = runtime.cache.entries_of(attachment.container_id)
    return [each for each in entries if each.attachment.ifname == attachment.ifname]


def _attachment(runtime: CniRuntime, args: argparse.Namespace, network: NetworkConfig) -> Attachment:
    """The attachment that the arguments mean; parts that they leave open are as at its ADD."""
    found = Attachment(args.container, "", args.ifname or DEFAULT_IFNAME)
    for each in _remembered(runtime, found):
        if each.network == network.name:
            found = each.attachment
    if args.netns is not None:
        found = replace(found, netns=arguments.namespace(args.netns))
    if given := arguments.plugin_args(args):
        found = replace(found, args=given)
    return replace(found, capabilities={**found.capabilities, **arguments.capabilities(args)})
