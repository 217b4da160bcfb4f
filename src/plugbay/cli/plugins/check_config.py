"""``plugbay check`` for configs of the generic plugin: every problem, and what a good config matches now."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from plugbay.cli.printing.output import show, show_note
from plugbay.cli.printing.table import Columns
from plugbay.errors.wording import printable
from plugbay.plugins.generic.config.nodes import format_of
from plugbay.plugins.generic.config.problems import ConfigProblem
from plugbay.plugins.generic.config.reading import ReadOptions, ReadOutcome, examine_config
from plugbay.plugins.generic.machine.machine import SysMachine
from plugbay.plugins.generic.selecting.explaining import Explanation, explain
from plugbay.plugins.generic.selecting.selection import select
from plugbay.plugins.generic.selecting.tree import HostTree
from plugbay.plugins.generic.selecting.units import SelectedUnits, Unit
from plugbay.plugins.generic.serving.making import DeviceMaker
from plugbay.sdk.process.config_file import read_text
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class CheckedConfig:
    """A config that was read, and what it selects or says of a device; None for both if something is wrong with it."""

    file: Path
    read: ReadOutcome
    selected: SelectedUnits | None = None
    explanation: Explanation | None = None


def check_configs(files: Sequence[Path], *, explained: str, machine_root: Path, is_lenient: bool, is_json: bool) -> int:
    """Show all problems, and matches or what rules say of a device; returns 1 if something is wrong.

    Args:
        explained: the path of the device, or the name of an interface; empty to show matches.
        machine_root: where ``/dev`` and ``/sys`` of the machine are.

    Raises:
        PathUnusable: a file cannot be read.
    """
    checked = [_check(file, explained, machine_root, ReadOptions(is_lenient=is_lenient)) for file in files]
    if is_json:
        show(json.dumps([_document(each) for each in checked], indent=4) + "\n")
    else:
        for each in checked:
            _show(each, is_one_of_several=len(checked) > 1)
    return 1 if any(each.read.errors for each in checked) else 0


def _check(file: Path, explained: str, root: Path, options: ReadOptions) -> CheckedConfig:
    text = read_text(file)
    read = examine_config(text, source=str(file), language=format_of(file.name), options=options)
    if read.config is None:
        return CheckedConfig(file, read)
    machine, files = SysMachine(root / "sys", root / "dev"), HostTree(root)
    if explained:
        return CheckedConfig(file, read, explanation=explain(read.config, machine, files, explained))
    maker = DeviceMaker(machine.node_links, files)
    return CheckedConfig(file, read, _offered(select(read.config, machine, files), maker))


def _offered(selected: SelectedUnits, maker: DeviceMaker) -> SelectedUnits:
    """The units of which devices can be made; `RuleTrouble` says why the others are none, once for all copies."""
    made = maker.make(selected)
    units = {
        name: tuple(unit for unit in those if unit.id in made.by_resource[name])
        for name, those in selected.units.items()
    }
    return SelectedUnits(units, (*selected.troubles, *made.troubles))


# --- for readers ------------------------------------------------------------------------------------------------------


def _show(checked: CheckedConfig, *, is_one_of_several: bool) -> None:
    show("".join(f"{printable(each.sentence)}\n" for each in checked.read.errors))
    for warning in checked.read.warnings:
        show_note(f"warning: {printable(warning.sentence)}")
    if checked.explanation is not None:
        show(printable(f"{checked.explanation.what}\n"))
        for verdict in checked.explanation.verdicts:
            show(printable(f"{verdict.place}: {verdict.entry}: {verdict.text}\n"))
    if checked.selected is None:
        return
    place = f"{printable(str(checked.file))}: " if is_one_of_several else ""
    if is_one_of_several:
        show(f"{place.rstrip()}\n")
    show(Columns(("RESOURCE", "UNITS", "ID", "GIVES")).table(_rows(checked.selected)))
    for trouble in checked.selected.troubles:
        show_note(f"note: {place}{printable(trouble.resource)}: {printable(trouble.text)}")


def _rows(selected: SelectedUnits) -> Iterator[tuple[str, str, str, str]]:
    """A row for each match, which stands for all of its copies."""
    noted = {trouble.resource for trouble in selected.troubles}
    for resource, those in selected.units.items():
        matches: dict[object, list[Unit]] = {}
        for unit in sorted(those, key=lambda each: ([node.host_path for node in each.nodes], each.id)):
            matches.setdefault((unit.nodes, unit.mounts, unit.interfaces, unit.physical), []).append(unit)
        if not matches:
            yield resource, "0", "", "nothing now; the note says why" if resource in noted else "nothing matches now"
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
    explanation = {} if checked.explanation is None else {"explanation": _explained(checked.explanation)}
    return explanation | {
        "file": str(checked.file),
        "errors": [_problem(each) for each in checked.read.errors],
        "warnings": [_problem(each) for each in checked.read.warnings],
        "resources": {name: [_unit(each) for each in units] for name, units in resources.items()},
        "troubles": [
            {"resource": each.resource, "text": each.text}
            for each in (() if checked.selected is None else checked.selected.troubles)
        ],
    }


def _explained(explanation: Explanation) -> dict[str, Any]:
    rules = [
        {"place": each.place, "name": each.entry, "text": each.text, "ids": [unit.id for unit in each.units]}
        for each in explanation.verdicts
    ]
    return {"path": explanation.path, "what": explanation.what, "rules": rules}


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
