"""``plugbay cni validate``: find faults in network configurations."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from plugbay.cli.arguments.inputs import read_file
from plugbay.cli.arguments.options import file_of
from plugbay.cli.arguments.parser import CommandParser
from plugbay.cli.cni import values as arguments
from plugbay.cli.cni.options import add_json, add_machine, add_wishes, binary_directories
from plugbay.cli.printing.output import show
from plugbay.cni.config import NetworkConfig
from plugbay.cni.directory import config_files, load_file
from plugbay.cni.lint.findings import LintFinding, Severity
from plugbay.cni.lint.structure import Engine
from plugbay.cni.lint.validation import Absence, Installed, Source, Surroundings, Validated, plugin_types
from plugbay.cni.lint.validation import validate as validate_all
from plugbay.documents import JsonObject
from plugbay.errors import (
    InvalidNetworkConfig,
    NetworkNotFound,
    NetworkPluginFailed,
    NetworkPluginMissing,
    UsageError,
)
from plugbay.errors.wording import printable
from plugbay.kernel.routes import read_routes
from plugbay.runtimes.oci.network_request import capabilities_of

_INVALID: Final = 1


def declare(parser: CommandParser) -> None:
    parser.describe(
        "Read configuration files as engines do and say what is wrong with them, where, and what to do: "
        "JSON, members, versions, binaries, capabilities, subnets, names and their order. Exits with 1 if there "
        "are errors; warnings do not count.",
        examples=(
            "plugbay cni validate",
            "plugbay cni validate examples/cni/10-plugbay.conflist --engine containerd-1",
            "plugbay cni validate --pod pod.yaml",
        ),
        run=validate,
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="*", help="configuration files (default: all of --conf-dir, in their order)"
    )
    parser.add_argument(
        "--engine",
        choices=tuple(each.value for each in Engine),
        help="the engine that shall use them (default: any)",
    )
    parser.add_argument(
        "--pod", metavar="FILE", type=file_of, help="a manifest whose annotations and host ports must be served"
    )
    add_wishes(parser)
    add_machine(parser)
    add_json(parser)


def validate(args: argparse.Namespace) -> int:
    wanted = _wishes(args)
    paths = [Path(each) for each in args.files] or config_files(args.conf_dir)
    if not paths:
        raise NetworkNotFound("", str(args.conf_dir))
    sources = [Source(str(path), read_file(path)) for path in paths]
    around = Surroundings(
        asyncio.run(_installed(args, sorted(plugin_types(sources)))),
        [str(each) for each in binary_directories(args)],
        [(each.network, each.link) for each in read_routes(proc_root=arguments.PROC)],
        wanted,
        Engine(args.engine) if args.engine else None,
    )
    validated = [_with_extra(each) for each in validate_all(sources, around)]
    if args.output:
        findings = [_finding_object(finding) for each in validated for finding in each.findings]
        show(json.dumps(findings, indent=4, ensure_ascii=False) + "\n")
    else:
        show("".join(_page(each) for each in validated))
    return 0 if all(map(_is_valid, validated)) else _INVALID


async def _installed(args: argparse.Namespace, names: Sequence[str]) -> dict[str, Installed]:
    plugins = arguments.plugins(args)
    found: dict[str, Installed] = {}
    for name in names:
        try:
            found[name] = await plugins.versions(name)
        except NetworkPluginMissing:
            found[name] = Absence.MISSING
        except NetworkPluginFailed as error:
            found[name] = error.message
    return found


def _wishes(args: argparse.Namespace) -> JsonObject:
    """The capabilities that the pod of ``--pod``, ``--port`` and ``--annotation`` need."""
    wanted = arguments.wishes(args)
    if args.pod is None:
        return wanted
    # Imported here: PyYAML costs as much as all the rest of the command.
    from plugbay.cli.kubectl.manifests import load_manifests
    from plugbay.manifest import Strictness
    from plugbay.runtimes.sandboxes import Network, SandboxSpec

    pods, _ = load_manifests([args.pod], mode=Strictness.LENIENT)
    if len(pods) != 1:
        raise UsageError(f"--pod wants one pod, {args.pod} holds {len(pods)}")
    sandbox = SandboxSpec(pods[0])
    if sandbox.network is Network.HOST:
        return wanted  # no plugin is asked for it
    return wanted | capabilities_of(sandbox.pod.annotations, sandbox.ports)


def _with_extra(validated: Validated) -> Validated:
    """``validated`` with the faults of plugins that a list takes from files of their own."""
    if validated.network is None:
        return validated
    try:
        load_file(Path(validated.source.path))
    except InvalidNetworkConfig as error:
        finding = LintFinding(Severity.ERROR, error.source, None, "", error.problem)
        return Validated(validated.source, validated.network, (*validated.findings, finding))
    return validated


def _is_valid(validated: Validated) -> bool:
    return all(each.severity is not Severity.ERROR for each in validated.findings)


def _page(validated: Validated) -> str:
    lines = [line for each in validated.findings for line in _lines(each)]
    if validated.network is not None and _is_valid(validated):
        lines.append(f"{validated.source.path}: valid: {_summary(validated.network)}")
    return "".join(f"{printable(line)}\n" for line in lines)


def _lines(finding: LintFinding) -> list[str]:
    return [finding.sentence, *([f"  hint: {finding.hint}"] if finding.hint else [])]


def _summary(network: NetworkConfig) -> str:
    plugins = ", ".join(each.type for each in network.plugins) or "none of its own"
    able = f"; capabilities {', '.join(sorted(network.capabilities))}" if network.capabilities else ""
    return f'network "{network.name}", version {network.version}, plugins {plugins}{able}'


def _finding_object(finding: LintFinding) -> dict[str, object]:
    place = finding.place
    return {
        "severity": finding.severity.value,
        "file": finding.source,
        "line": place.line if place else None,
        "column": place.column if place else None,
        "where": finding.where,
        "problem": finding.problem,
        "hint": finding.hint,
    }
