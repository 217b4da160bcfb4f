"""``plugbay manifest``: print what brings plugins to the nodes of a cluster."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.targets.loading import DESCRIPTION, add_targets, load_targets
from plugbay.cli.arguments.targets.ready_made import READY_MADE, ready_made
from plugbay.cli.plugins.manifest_files import CONFIG_NAME, FilesOfPod
from plugbay.cli.printing.logs import configure_logs
from plugbay.cli.printing.output import show
from plugbay.errors import UsageError
from plugbay.model.dns import is_name, is_subdomain
from plugbay.sdk.deploying.daemonset import FILES, Deployment, default_name, manifest
from plugbay.sdk.deploying.needs import needs_now
from plugbay.sdk.deploying.noted_yaml import noted_yaml
from plugbay.sdk.process.sources import Member

_IMAGE: Final = "--image registry.example.com/plugbay:1"


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Print a DaemonSet that serves plugins on the nodes of a cluster: without capabilities, with a read-only root, "
        "and with only those directories of the node that the plugins need, each with its reason. "
        f"{DESCRIPTION} Config file and Python files go along in a ConfigMap; all else is to be in the image. "
        "The targets are loaded to see what they need; no device is looked for, and no cluster is asked.",
        takes_more="targets",
        examples=(
            f"plugbay manifest gophers.py {_IMAGE}",
            f"plugbay manifest --config plugins.yaml {_IMAGE} --node-selector example.com/gophers=true",
            f"plugbay manifest nvidia --mig-strategy mixed {_IMAGE}",
        ),
        run=run,
    )
    add_targets(
        parser,
        help="what the DaemonSet serves",
        about="Print a DaemonSet that serves devices on the nodes of a cluster",
        add_options=_add_options,
        needs=_IMAGE,
    )


def _add_options(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--image",
        required=True,
        metavar="IMAGE",
        help="a container image with plugbay[metrics] and what plugins import",
    )
    parser.add_argument("--name", metavar="NAME", help="of the objects (default: after the resource)")
    parser.add_argument(
        "--namespace", metavar="NAMESPACE", default="kube-system", help="of the objects (default: %(default)s)"
    )
    parser.add_argument(
        "--node-selector",
        metavar="KEY=VALUE,...",
        action="append",
        default=[],
        help="labels of the nodes that get the plugins (default: all nodes)",
    )
    parser.add_argument(
        "-o", "--output", choices=("yaml",), default="yaml", help="form of output (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Print the manifest, or nothing if any of it is wrong; returns 0."""
    configure_logs("error", sys.stderr)
    with contextlib.redirect_stdout(sys.stderr):  # an author's code may print
        deployment = _deployment(args)
    show(noted_yaml(manifest(deployment)))
    return 0


def _deployment(args: argparse.Namespace) -> Deployment:
    if args.root is not None:
        raise UsageError("--root: the manifest is for the kubelet at /var/lib/kubelet")
    selector = _labels(args.node_selector)
    args.elsewhere = True
    loaded = load_targets(args, settings_beside=Path(FILES))
    members: list[Member] = [member for _, those in loaded for member in those]
    if args.root is not None:  # `nvidia` has an option of its own for it
        raise UsageError("--kubelet-socket: the manifest is for the kubelet at /var/lib/kubelet")
    files = FilesOfPod()
    words = [word for target in args.targets for word in _words(target, args, files)]
    if args.config is not None:
        files.add_config(args.config)
        words.append(f"--config={FILES}/{CONFIG_NAME}")
    needs = asyncio.run(needs_now(members))
    return Deployment(
        name=default_name(needs) if args.name is None else args.name,
        namespace=args.namespace,
        image=args.image,
        needs=needs,
        targets=tuple(words),
        files=files.texts(),
        node_selector=selector,
    )


def _words(target: str, args: argparse.Namespace, files: FilesOfPod) -> Iterator[str]:
    """The words for ``plugbay serve`` in the pod."""
    if target in READY_MADE:
        yield target
        yield from _options(target, args)
    else:
        yield files.add_target(target)


def _options(target: str, args: argparse.Namespace) -> Iterator[str]:
    parser = argparse.ArgumentParser(add_help=False)
    ready_made(target).add_options(parser)
    for action in parser._actions:
        value = getattr(args, action.dest, None)
        if value is None or value == action.default:
            continue
        for each in value if isinstance(value, list) else [value]:
            yield f"{action.option_strings[0]}={each.absolute() if isinstance(each, Path) else each}"


def _labels(texts: Sequence[str]) -> Mapping[str, str]:
    labels: dict[str, str] = {}
    for each in ",".join(texts).split(",") if texts else ():
        key, equals, value = each.partition("=")
        prefix, slash, name = key.rpartition("/")
        if not equals or not is_name(name) or (slash and not is_subdomain(prefix)) or (value and not is_name(value)):
            raise UsageError(f"--node-selector {','.join(texts)}: {each!r} is not a label such as disk=ssd")
        if labels.setdefault(key, value) != value:
            raise UsageError(f"--node-selector {','.join(texts)}: no node has two values for {key}")
    return labels
