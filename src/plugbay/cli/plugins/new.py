"""``plugbay new``: write the files of a new plugin, which work as they are."""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Collection, Mapping
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from typing import Final

from plugbay.cdi.names import parse_kind
from plugbay.cli.arguments.options import path_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.arguments.targets.loading import plugins_of_all_nodes
from plugbay.cli.plugins.manifest_files import CONFIG_NAME, FilesOfPod
from plugbay.cli.plugins.writing import Existing, written
from plugbay.cli.printing.output import show
from plugbay.errors import InvalidCdiName, InvalidResourceName, UsageError
from plugbay.model.ids import parse_resource_name
from plugbay.sdk.deploying.deployment import FILES, NAMESPACE, Deployment
from plugbay.sdk.deploying.needs import needs_now
from plugbay.sdk.deploying.noted_yaml import noted_yaml
from plugbay.sdk.deploying.objects import manifest

_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
"""A name that can stand in a module's name, a path and a label of Kubernetes."""
_DOMAIN: Final = "example.com"
_FILES: Final = {
    "plugin.py": "{module}.py",
    "plugins.yaml": "plugins.yaml",
    "test_plugin.py": "test_{module}.py",
    "pytest.ini": "pytest.ini",
    "README.md": "README.md",
}
"""The name of each template's file."""
_MANIFEST: Final = "daemonset.yaml"
_REGISTRY: Final = "registry.example.com"
_PARTS: Final = ("release", "cdi")
"""Parts of templates that an option asks for."""


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Write a plugin to begin with: its code, a config file, a test with a kubelet, and a "
        "DaemonSet. Files that exist are never touched.",
        examples=(
            "plugbay new gopher",
            "plugbay new gopher --resource example.com/gopher --directory plugins/gopher",
            "plugbay new gopher --release --cdi",
        ),
        run=run,
    )
    parser.add_argument("name", metavar="NAME", help="of lower-case letters, digits and -, such as gopher")
    parser.add_argument(
        "--directory", metavar="DIR", type=path_of, help="where the files go (default: a directory called NAME)"
    )
    parser.add_argument("--resource", metavar="R", help="resource name (default: example.com/NAME)")
    parser.add_argument(
        "--release", action="store_true", help="clean devices when their pod is gone, on any kubelet: with `release`"
    )
    parser.add_argument("--cdi", action="store_true", help="give devices to the container engine by name: with CDI")


def run(args: argparse.Namespace) -> int:
    """Write the files and say which; all of them or none."""
    if not _NAME.fullmatch(args.name):
        raise UsageError(
            f"{args.name!r} cannot name a plugin: 1 to 40 lower-case letters, digits and - are wanted, a letter first, "
            "such as gopher"
        )
    resource = args.resource if args.resource is not None else f"{_DOMAIN}/{args.name}"
    _check_resource(resource, is_kind=args.cdi)
    directory = args.directory or Path(args.name)
    parts = {part for part in _PARTS if getattr(args, part)}
    files = _files(args.name, resource, parts)
    files[_MANIFEST] = _manifest_of(files, f"{args.name}-plugin")
    show(written({directory / name: text for name, text in files.items()}, existing=Existing.REFUSED))
    return 0


def _check_resource(resource: str, *, is_kind: bool) -> None:
    """Raise `UsageError` if no kubelet would take the resource, or CDI would not take it as a kind."""
    try:
        parse_resource_name(resource)
        if is_kind:
            parse_kind(resource)
    except (InvalidResourceName, InvalidCdiName) as error:
        raise UsageError(str(error)) from None


def _files(name: str, resource: str, parts: Collection[str]) -> dict[str, str]:
    # With endings, because a plugin may be called `path` or `true`, as modules of Python and programs are.
    module = f"{name.replace('-', '_')}_plugin"
    words = {
        "name": name,
        "module": module,
        "class_name": "".join(part.capitalize() for part in (*name.split("-"), "devices")),
        "variable": f"{name.replace('-', '_').upper()}_DEVICES",
        "resource": resource,
    }
    templates = resources.files("plugbay.cli.plugins") / "templates"
    return {
        file.format(module=module): Template(
            _with_parts((templates / f"{template}.txt").read_text(encoding="utf-8"), parts)
        ).substitute(words)
        for template, file in _FILES.items()
    }


def _manifest_of(files: Mapping[str, str], name: str) -> str:
    """The text that `plugbay manifest` prints for the new plugin, beside which there is nothing yet."""
    with TemporaryDirectory() as scratch:
        for file, text in files.items():
            (Path(scratch) / file).write_text(text, encoding="utf-8")
        config, of_pod = Path(scratch) / CONFIG_NAME, FilesOfPod()
        members = plugins_of_all_nodes(config, pod=Path(FILES))
        of_pod.add_config(config)
        deployment = Deployment(
            name=name,
            namespace=NAMESPACE,
            image=f"{_REGISTRY}/plugbay-plugins:{version('plugbay')}",
            needs=asyncio.run(needs_now(members, of_pod.needs)),
            targets=(f"--config={FILES}/{CONFIG_NAME}",),
            files=of_pod.texts(),
        )
    return noted_yaml(manifest(deployment))


def _with_parts(text: str, parts: Collection[str]) -> str:
    """A template without unwanted parts, which reach from ``%PART`` to ``%else`` or ``%end``, lines of their own."""
    lines, is_wanted = [], True
    for line in text.splitlines(keepends=True):
        if not line.startswith("%"):
            lines += [line] if is_wanted else []
            continue
        match line[1:].rstrip():
            case "else":
                is_wanted = not is_wanted
            case "end":
                is_wanted = True
            case part:
                is_wanted = part in parts
    return "".join(lines)
