"""``plugbay manifest``: print what brings plugins to the nodes of a cluster."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from plugbay.cli.arguments.options import path_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.targets.loading import DESCRIPTION, add_targets, load_targets
from plugbay.cli.arguments.targets.ready_made import READY_MADE, TakesFiles, ready_made
from plugbay.cli.plugins.manifest_files import CONFIG_NAME, FilesOfPod
from plugbay.cli.printing.logs import configure_logs
from plugbay.cli.printing.output import show
from plugbay.errors import DuplicateResource, UsageError
from plugbay.model.dns import is_name, is_subdomain
from plugbay.model.selectors import Selector, parse_selector
from plugbay.ops.listening import TcpAddress, parse_address
from plugbay.sdk.deploying.deployment import FILES, NAMESPACE, PORT, Deployment, Extra, default_name
from plugbay.sdk.deploying.needs import needs_now
from plugbay.sdk.deploying.noted_yaml import noted_yaml
from plugbay.sdk.deploying.objects import check_pod_security, manifest
from plugbay.sdk.deploying.pod_security import PodSecurity
from plugbay.sdk.process.sources import Member, known_plugins

_METRICS: Final = "metrics"
_EVERY_HOST: Final = ("", "0.0.0.0", "::")
_PRINTED: Final = "yaml"
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
    parser.add_argument(
        "--name",
        metavar="NAME",
        help="of the objects (default: after the resource or target); one that is in the cluster already is replaced",
    )
    parser.add_argument("--namespace", metavar="NAMESPACE", help=f"of the objects (default: {NAMESPACE})")
    parser.add_argument(
        "--node-selector",
        metavar="KEY=VALUE,...",
        action="append",
        default=[],
        help="labels of the nodes that get the plugins (default: all nodes)",
    )
    parser.add_argument(
        "--node-affinity",
        metavar="SELECTOR",
        action="append",
        default=[],
        help="conditions on labels, such as 'pool in (a,b),!old'; of several such options one has to hold",
    )
    parser.add_argument("--runtime-class", metavar="CLASS", default="", help="of the pods (default: the cluster's)")
    parser.add_argument(
        "--with",
        dest="extras",
        metavar="WHAT,...",
        action="append",
        default=[],
        help=f"further objects: {', '.join(each.value for each in Extra)}",
    )
    parser.add_argument(
        "--monitor-labels",
        metavar="KEY=VALUE,...",
        action="append",
        default=[],
        help="of the PodMonitor, by which a Prometheus chooses it, such as release=prometheus",
    )
    parser.add_argument(
        "--pod-security",
        choices=[each.value for each in PodSecurity],
        default=PodSecurity.PRIVILEGED.value,
        help="refuse pods that a namespace of this Pod Security level would not admit (default: %(default)s)",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=(_PRINTED, "kustomize", "helm"),
        default=_PRINTED,
        help="a text, a directory for kustomize, or a chart (default: %(default)s)",
    )
    parser.add_argument("--to", metavar="DIR", type=path_of, help="where files go, with -o kustomize or helm")
    parser.add_argument("--overwrite", action="store_true", help="replace files there that differ")


def run(args: argparse.Namespace) -> int:
    """Print the manifest, or nothing if any of it is wrong; returns 0."""
    _check_output(args)
    configure_logs("error", sys.stderr)
    with contextlib.redirect_stdout(sys.stderr):  # an author's code may print
        deployment = deployment_of(args)
    check_pod_security(deployment, PodSecurity(args.pod_security))
    files = _files(args.output, deployment)
    if files is None:
        show(noted_yaml(manifest(deployment)))
    else:
        from plugbay.cli.plugins.writing import Existing, written

        kept = Existing.REPLACED if args.overwrite else Existing.KEPT_IF_SAME
        show(written({args.to / name: text for name, text in files.items()}, existing=kept))
    return 0


def _files(form: str, deployment: Deployment) -> Mapping[str, str] | None:
    """The files of a directory; None for a form that is printed."""
    match form:
        case "kustomize":
            from plugbay.sdk.deploying.kustomize import kustomize_directory

            return kustomize_directory(deployment)
        case "helm":
            from plugbay.sdk.deploying.chart import chart
            from plugbay.sdk.deploying.chart_values import values_of
            from plugbay.version import VERSION

            return chart(values_of(deployment), version=VERSION)
        case _:
            return None


def _check_output(args: argparse.Namespace) -> None:
    if args.output == _PRINTED and (args.to is not None or args.overwrite):
        raise UsageError(f"--{'to' if args.to else 'overwrite'} is for -o kustomize and -o helm; yaml is printed")
    if args.output != _PRINTED and args.to is None:
        raise UsageError(f"-o {args.output} wants --to DIR, the directory where the files go")
    if args.output == "helm" and (args.namespace is not None or Extra.NAMESPACE in _extras(args.extras)):
        option = "--with namespace" if args.namespace is None else "--namespace"
        raise UsageError(
            f"{option}: a chart has the namespace of its release, by `helm install -n NAME --create-namespace`"
        )


def deployment_of(args: argparse.Namespace) -> Deployment:
    """The deployment that arguments of the command ask for.

    Raises:
        PlugbayError: one sentence about what is wrong.
    """
    if args.root is not None:
        raise UsageError("--root: the manifest is for the kubelet at /var/lib/kubelet")
    selector, extras = _labels("--node-selector", args.node_selector), frozenset(_extras(args.extras))
    monitor_labels = _labels("--monitor-labels", args.monitor_labels)
    args.elsewhere = True
    loaded = load_targets(args, pod=Path(FILES))
    members: list[Member] = [member for _, those in loaded for member in those]
    _check_served_once(loaded, has_config=args.config is not None)
    if args.root is not None:  # `nvidia` has an option of its own for it
        raise UsageError("--kubelet-socket: the manifest is for the kubelet at /var/lib/kubelet")
    files = FilesOfPod()
    words = [word for target in args.targets for word in _words(target, args, files)]
    if args.config is not None:
        files.add_config(args.config)
        words.append(f"--config={FILES}/{CONFIG_NAME}")
    needs = asyncio.run(needs_now(members, files.needs))
    return Deployment(
        name=default_name(needs) if args.name is None else args.name,
        namespace=NAMESPACE if args.namespace is None else args.namespace,
        image=args.image,
        needs=needs,
        targets=tuple(words),
        files=files.texts(),
        port=_port(args),
        node_selector=selector,
        affinity=tuple(_affinity(each) for each in args.node_affinity),
        runtime_class=args.runtime_class,
        extras=extras,
        monitor_labels=monitor_labels,
    )


def _check_served_once(loaded: Sequence[tuple[str, Sequence[Member]]], *, has_config: bool) -> None:
    """Check that no node would serve a resource twice; a config file, which comes last, is checked on its own."""
    names = [[plugin.resource_name for plugin in known_plugins(those)] for _, those in loaded]
    if has_config:  # nodes with different configs may well serve the same
        names[-1] = sorted(set(names[-1]))
    served = [name for those in names for name in those]
    if len(set(served)) < len(served):
        raise DuplicateResource(max(served, key=served.count))


def _words(target: str, args: argparse.Namespace, files: FilesOfPod) -> Iterator[str]:
    """The words for ``plugbay serve`` in the pod."""
    if target in READY_MADE:
        yield target
        yield from _options(target, args, files)
    else:
        yield files.add_target(target)


def _options(target: str, args: argparse.Namespace, files: FilesOfPod) -> Iterator[str]:
    parser, module = argparse.ArgumentParser(add_help=False), ready_made(target)
    module.add_options(parser)
    naming_files = module.FILE_OPTIONS if isinstance(module, TakesFiles) else ()
    for action in parser._actions:
        value, option = getattr(args, action.dest, None), next(iter(action.option_strings), "")
        if value is None or value == action.default or action.dest == _METRICS:  # the DaemonSet names the port
            continue
        if action.nargs == 0:  # a switch
            yield option
            continue
        for each in value if isinstance(value, list) else [value]:
            place = files.add_named(Path(each)) if option in naming_files else each
            yield f"{option}={place.absolute() if isinstance(place, Path) else place}"


def _port(args: argparse.Namespace) -> int:
    """The port of metrics and probes: that which the options of a target, or its file, ask for."""
    wanted = getattr(args, _METRICS, None)
    if wanted is None:
        return PORT
    address = parse_address(wanted)
    if isinstance(address, TcpAddress) and address.host in _EVERY_HOST and address.port:
        return address.port
    raise UsageError(f"--listen {wanted}: Prometheus and the kubelet ask from outside the pod; give a port, as :{PORT}")


def _extras(texts: Sequence[str]) -> Iterator[Extra]:
    known = {each.value: each for each in Extra}
    for each in ",".join(texts).split(",") if texts else ():
        if each not in known:
            raise UsageError(f"--with {each}: there is {', '.join(known)}")
        yield known[each]


def _affinity(text: str) -> Selector:
    if not (selector := parse_selector(text)):
        raise UsageError("--node-affinity: an empty selector says nothing of a node")
    return selector


def _labels(option: str, texts: Sequence[str]) -> Mapping[str, str]:
    labels: dict[str, str] = {}
    for each in ",".join(texts).split(",") if texts else ():
        key, equals, value = each.partition("=")
        prefix, slash, name = key.rpartition("/")
        if not equals or not is_name(name) or (slash and not is_subdomain(prefix)) or (value and not is_name(value)):
            raise UsageError(f"{option} {','.join(texts)}: {each!r} is not a label such as disk=ssd")
        if labels.setdefault(key, value) != value:
            raise UsageError(f"{option} {','.join(texts)}: nothing has two values for {key}")
    return labels
