"""``generic``: any device of the machine, by rules in a file, with the flags of squat's generic device plugin."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugbay.cli.arguments.options import path_of
from plugbay.version import VERSION

if TYPE_CHECKING:
    from plugbay.plugins.generic.serving.arguments import GenericArguments
    from plugbay.plugins.generic.serving.source import GenericSource
    from plugbay.sdk.process.config import ConfigEntry
    from plugbay.sdk.process.sources import Member

SUMMARY: Final = "any device of the machine, by rules in a file"
EXAMPLE: Final = "generic --config devices.yaml"
FILE_OPTIONS: Final = ("--config",)
_ROOT: Final = Path("/")
_VERSION_LINE: Final = f"plugbay {VERSION}"
_SQUATS_LISTEN: Final = ":8080"
LEVELS: Final = {"all": "debug", "warn": "warning", "none": "error"}
"""The levels of squat's plugin that we call otherwise, or do not have."""


class _UnsaidLevel(str):
    """The level of the log while neither a flag nor a variable names one: the file may."""

    __slots__ = ()


def add_options(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--config",
        dest="generic_config",
        metavar="FILE",
        type=path_of,
        help="YAML, JSON or TOML file with devices; read again whenever it changes (default: config.yaml or the like "
        "in /etc/generic-device-plugin or here)",
    )
    parser.add_argument(
        "--device",
        dest="generic_devices",
        metavar="ENTRY",
        action="append",
        help="an entry as in the file, in YAML or JSON, such as '{name: fuse, groups: [{paths: [{path: /dev/fuse}]}]}'"
        "; several options give several, instead of those of the file",
    )
    parser.add_argument(
        "--preset",
        dest="generic_presets",
        metavar="NAME",
        action="append",
        help="devices of a kind, such as serial or video, beside those that are given otherwise; "
        "`plugbay presets` shows them",
    )
    parser.add_argument(
        "--domain", dest="generic_domain", metavar="D", help="of the resources, such as example.com ($PLUGBAY_DOMAIN)"
    )
    parser.add_argument(
        "--lenient",
        dest="is_lenient",
        action="store_true",
        help="ignore unknown fields with a warning, as squat's plugin does without one",
    )
    parser.add_argument("--listen", dest="metrics", metavar="ADDR", help="the same as --metrics ($PLUGBAY_LISTEN)")
    parser.add_argument(
        "--compat-metrics",
        dest="has_compat_metrics",
        action="store_true",
        help=f"show the metrics of squat's plugin too, by its names, and at {_SQUATS_LISTEN} if nothing says where",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=_VERSION_LINE,
        help="show the version and exit, as $VERSION=true does, which is squat's",
    )
    parser.add_argument(
        "--plugin-directory",
        metavar="DIR",
        type=path_of,
        help="the kubelet's directory of plugins; only its parent counts, as with --root ($PLUGBAY_PLUGIN_DIRECTORY)",
    )
    parser.add_argument(
        "--machine-root",
        metavar="DIR",
        type=path_of,
        default=_ROOT,
        help="where the machine's /dev, /sys and other files are; for a manifest, in its pods (default: %(default)s)",
    )


def defaults(variables: Mapping[str, str]) -> Mapping[str, object]:
    """The defaults of options of every command that the environment decides."""
    from plugbay.plugins.generic.serving.arguments import LISTEN, LOG_LEVEL, variable

    found: dict[str, object] = {}
    if listen := variable(variables, LISTEN):
        found["metrics"] = listen
    level = variable(variables, LOG_LEVEL)
    found["log_level"] = LEVELS.get(level, level) or _UnsaidLevel("info")
    return found


def from_options(args: argparse.Namespace) -> Sequence[Member]:
    import os
    import sys

    from plugbay.plugins.generic.serving.arguments import PLUGIN_DIRECTORY, GenericArguments, find_file, variable

    variables = {} if getattr(args, "elsewhere", False) else dict(os.environ)
    if variables.get("VERSION", "").lower() == "true":  # alone: many have a variable with a version of their own
        sys.stdout.write(f"{_VERSION_LINE}\n")
        raise SystemExit(0)
    _check_domain(args.generic_domain)
    given = args.generic_devices or []
    places = ["--device"] if len(given) == 1 else [f"--device {number}" for number in range(1, len(given) + 1)]
    arguments = GenericArguments(
        args.generic_config,
        tuple(zip(places, given, strict=True)),
        tuple(args.generic_presets or ()),
        args.generic_domain or "",
        args.is_lenient,
        variables,
    )
    args.generic_config = find_file(arguments)  # a manifest takes it along
    source = _source(
        arguments, args.generic_config, args.machine_root.absolute(), has_compat_metrics=args.has_compat_metrics
    )
    if getattr(args, "elsewhere", False) and args.machine_root == _ROOT:
        source = _in_pod(source, args)
    settings = source.config.settings
    if getattr(args, "metrics", None) is None:
        args.metrics = settings.get("listen") or (_SQUATS_LISTEN if args.has_compat_metrics else None)
    if (level := settings.get("log-level")) and isinstance(getattr(args, "log_level", None), _UnsaidLevel):
        logging.getLogger().setLevel(LEVELS.get(level, level).upper())
    directory = args.plugin_directory or variable(variables, PLUGIN_DIRECTORY) or settings.get("plugin-directory")
    _choose_kubelet(args, directory)
    return [source]


def _in_pod(source: GenericSource, args: argparse.Namespace) -> GenericSource:
    """The source in a pod of a manifest, which may have to have the machine's files elsewhere."""
    from dataclasses import replace

    from plugbay.plugins.generic.answers.needs import root_in_pod
    from plugbay.plugins.generic.serving.source import GenericSource

    args.machine_root = root_in_pod(source.config)
    return GenericSource(replace(source.settings, root=args.machine_root)) if args.machine_root != _ROOT else source


def _check_domain(domain: str | None) -> None:
    """Check what ``--domain`` says, if it is given.

    Raises:
        UsageError: no resource can have it, such as an empty one.
    """
    from plugbay.errors import UsageError
    from plugbay.plugins.generic.config.text_checks import domain_problem

    if domain is not None and (problem := domain_problem(domain)):
        raise UsageError(f"--domain {problem}")


def _choose_kubelet(args: argparse.Namespace, directory: Path | str | None) -> None:
    """Take the kubelet's directory from that of its plugins, unless ``--root`` or ``--node`` names it.

    Raises:
        UsageError: kubelets have no such directory.
    """
    from plugbay.errors import UsageError

    if not directory or args.root is not None or getattr(args, "node", False) or getattr(args, "elsewhere", False):
        return
    place = Path(directory).absolute()
    if place.name != "device-plugins":
        raise UsageError(f"--plugin-directory {directory}: a kubelet has its plugins in DIR/device-plugins")
    args.root = str(place.parent)


def from_settings(entry: ConfigEntry, directory: Path, *, pod: Path | None) -> Sequence[Member]:
    """The settings are the flags without their dashes; ``devices`` is a list of entries as in a file."""
    import os

    import msgspec

    from plugbay.errors import PluginLoadError
    from plugbay.plugins.generic.serving.arguments import SEARCHED, GenericArguments, find_file
    from plugbay.plugins.generic.serving.target_settings import GenericTargetSettings
    from plugbay.sdk.process.config import settings_as

    wanted = settings_as(GenericTargetSettings, entry)
    devices = tuple(
        (f"devices[{number}]", msgspec.json.encode(each).decode()) for number, each in enumerate(wanted.devices)
    )
    arguments = GenericArguments(
        None if wanted.config is None else directory / wanted.config,
        devices,
        wanted.presets,
        wanted.domain,
        wanted.lenient,
        dict(os.environ) if pod is None else {},
    )
    file = find_file(arguments, SEARCHED if pod is None else ())  # what lies about on this machine is not in the pods
    root = Path(wanted.machine_root)
    if not root.is_absolute() or ".." in root.parts:
        raise PluginLoadError(entry.target, f"machine-root {wanted.machine_root}: a path from the root is wanted")
    return [_source(arguments, file, root, has_compat_metrics=wanted.compat_metrics)]


def _source(arguments: GenericArguments, file: Path | None, root: Path, *, has_compat_metrics: bool) -> GenericSource:
    from functools import partial

    from plugbay.plugins.generic.serving.arguments import load_rules
    from plugbay.plugins.generic.serving.settings import GenericSettings
    from plugbay.plugins.generic.serving.source import GenericSource

    load = partial(load_rules, arguments, file)
    return GenericSource(GenericSettings(load, file, root, arguments.variables, has_compat_metrics))
