"""The owners of paths: a path that stands in two entries is given by one of them alone, unless both share. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from plugbay.plugins.generic.config.problems import ConfigFindings, ConfigProblem
from plugbay.plugins.generic.config.rules import Entry, PathKind, PathRule, Paths

_SHARED: Final = "; write shared: true in both if both may give it at the same time"


def refuse_paths_of_two(entries: Sequence[Entry], findings: ConfigFindings) -> None:
    """Note each path or pattern of devices that an entry before has too; mounts may stand in any number.

    Different patterns may match the same file as well, which only the machine tells.
    """
    for rule, before, _ in _paths_of_two(entries):
        problem = f"{rule.pattern} is a path of {before.name} already, in line {before.spot.line}{_SHARED}"
        findings.forgivable(rule.spot, (), problem, instead=f"{before.name} alone gives it")


def paths_of_two_texts(entries: Sequence[Entry]) -> Iterator[ConfigProblem]:
    """The paths or patterns of devices that stand in two texts, such as a file and a flag."""
    for rule, before, entry in _paths_of_two(entries):
        if before.source != entry.source:
            problem = f"{rule.pattern} is a path of {before.name} in {before.source} already{_SHARED}"
            yield ConfigProblem(entry.source, rule.spot, "", problem)


def _paths_of_two(entries: Sequence[Entry]) -> Iterator[tuple[PathRule, Entry, Entry]]:
    owners: dict[str, Entry] = {}
    for entry in entries:
        for rule in _device_rules(entry):
            before = owners.setdefault(rule.pattern, entry)
            if before is not entry and not (before.is_shared and entry.is_shared):
                yield rule, before, entry


def _device_rules(entry: Entry) -> Iterator[PathRule]:
    for group in entry.groups:
        for rule in group.what.rules if isinstance(group.what, Paths) else ():
            if rule.kind is PathKind.DEVICE:
                yield rule
