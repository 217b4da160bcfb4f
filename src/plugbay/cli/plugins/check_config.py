"""``plugbay check`` for configs of the generic plugin: every problem, and what a good config matches now."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from plugbay.cli.printing.output import show, show_note
from plugbay.cli.printing.table import Columns, printable
from plugbay.plugins.generic.config.nodes import format_of
from plugbay.plugins.generic.config.problems import ConfigProblem
from plugbay.plugins.generic.config.reading import ReadOptions, ReadOutcome, examine_config
from plugbay.plugins.generic.machine.machine import SysMachine
from plugbay.plugins.generic.selecting.selection import select
from plugbay.plugins.generic.selecting.tree import HostTree
from plugbay.plugins.generic.selecting.units import SelectedUnits, Unit
from plugbay.sdk.process.config_file import read_text
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class CheckedConfig:
    """A config that was read, and what it selects; None if something is wrong with it."""

    file: Path
    read: ReadOutcome
    selected: SelectedUnits | None


def check_configs(files: Sequence[Path], *, machine_root: Path, is_lenient: bool, is_json: bool) -> int:
    """Show all problems and matches; returns 1 if something is wrong.

    Args:
        machine_root: where ``/dev`` and ``/sys`` of the machine are.
    """
    checked = [_check(file, machine_root, ReadOptions(is_lenient=is_lenient)) for file in files]
    if is_json:
        show(json.dumps([_document(each) for each in checked], indent=4) + "\n")
    else:
        for each in checked:
            _show(each)
    return 1 if any(each.read.errors for each in checked) else 0


def _check(file: Path, root: Path, options: ReadOptions) -> CheckedConfig:
    """Raises PathUnusable if the file cannot be read."""
    read = examine_config(read_text(file), source=str(file), language=format_of(file.name), options=options)
    if read.config is None:
        return CheckedConfig(file, read, None)
    return CheckedConfig(file, read, select(read.config, SysMachine(root / "sys", root / "dev"), HostTree(root)))


# --- for readers ------------------------------------------------------------------------------------------------------


def _show(checked: CheckedConfig) -> None:
    show("".join(f"{printable(each.sentence)}\n" for each in checked.read.errors))
    for warning in checked.read.warnings:
        show_note(f"warning: {printable(warning.sentence)}")
    if checked.selected is None:
        return
    units = checked.selected.units
    show(Columns(("RESOURCE", "UNITS", "ID", "GIVES")).table(_rows(units)))
    for trouble in checked.selected.troubles:
        show_note(f"note: {printable(trouble.resource)}: {printable(trouble.text)}")


def _rows(units: Mapping[Any, Sequence[Unit]]) -> Iterator[tuple[str, str, str, str]]:
    """A row for each match, which stands for all of its copies."""
    for resource, those in units.items():
        matches: dict[object, list[Unit]] = {}
        for unit in sorted(those, key=lambda each: ([node.host_path for node in each.nodes], each.id)):
            matches.setdefault((unit.nodes, unit.mounts, unit.interfaces, unit.physical), []).append(unit)
        if not matches:
            yield resource, "0", "", "nothing matches now"
        for copies in matches.values():
            first = min(copies, key=lambda each: each.copy)
            more = f" and {len(copies) - 1} more" if len(copies) > 1 else ""
            yield resource, str(len(copies)), f"{first.id}{more}", _given(first)


def _given(unit: Unit) -> str:
    nodes = [
        each.host_path if each.container_path == each.host_path else f"{each.host_path} as {each.container_path}"
        for each in unit.nodes
    ]
    mounts = [f"{each.host_path} at {each.container_path}" for each in unit.mounts]
    return ", ".join([*nodes, *mounts, *unit.interfaces]) or "a token"


# --- for programs -----------------------------------------------------------------------------------------------------


def _document(checked: CheckedConfig) -> dict[str, Any]:
    resources = {} if checked.selected is None else checked.selected.units
    return {
        "file": str(checked.file),
        "errors": [_problem(each) for each in checked.read.errors],
        "warnings": [_problem(each) for each in checked.read.warnings],
        "resources": {name: [_unit(each) for each in units] for name, units in resources.items()},
        "troubles": [
            {"resource": each.resource, "text": each.text}
            for each in (() if checked.selected is None else checked.selected.troubles)
        ],
    }


def _problem(problem: ConfigProblem) -> dict[str, Any]:
    return {
        "line": problem.spot.line,
        "column": problem.spot.column,
        "field": problem.field,
        "problem": problem.text,
    }


def _unit(unit: Unit) -> dict[str, Any]:
    return {
        "id": unit.id,
        "copy": unit.copy,
        "nodes": [each.host_path for each in unit.nodes],
        "mounts": [each.host_path for each in unit.mounts],
        "interfaces": list(unit.interfaces),
        "numaNodes": sorted(unit.numa_nodes),
    }
