"""Files of smarter-device-manager: a list of expressions for names below ``/dev``. Pure.

Source: smarter-device-manager 1.20.12 ``main.go``, ``server.go``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from plugbay.plugins.generic.config.nodes import Keys, Node, Series
from plugbay.plugins.generic.config.problems import ConfigFindings, in_order, short
from plugbay.plugins.generic.config.records import ConfigField as Field
from plugbay.plugins.generic.config.records import Record, RecordShape
from plugbay.plugins.generic.config.rules import DevNames, Entry, GenericConfig, NameSpelling, RuleGroup
from plugbay.plugins.generic.config.shapes import ListShape, NumberShape, ShapeContext, TextShape
from plugbay.values import dataclass

_DOMAIN: Final = "smarter-devices"
"""Domain of all resources of such a file."""
_MOST: Final = 100_000
_MATCH: Final = "devicematch"
_NUMBER: Final = "nummaxdevices"
_OF_NVIDIA: Final = "nvidia-gpu"
"""The expression that stands for GPUs of Tegra boards there, and not for a name."""
_NOT_OF_BOTH: Final = re.compile(r"\[:\^?[a-z]+:\]|\\[pPzZQC]|\(\?<?[=!]|\{,")
"""Parts that mean something in Go or in Python, and something else or nothing in the other."""


@dataclass(frozen=True, slots=True)
class _ExpressionProblem:
    """The reason for which a text is not an expression; ``text`` is the end of a sentence."""

    text: str


def _expression_of(text: str) -> re.Pattern[str] | _ExpressionProblem:
    """Read a regular expression of Go, as far as it means the same here."""
    if not text:
        return _ExpressionProblem("is empty, so that it would match every file of /dev")
    if found := _NOT_OF_BOTH.search(text):
        return _ExpressionProblem(
            f"{short(text)} holds {found[0]}, which is not read here; write a class such as [0-9]"
        )
    try:
        return re.compile(text, re.ASCII)
    except re.error as error:
        return _ExpressionProblem(f"{short(text)} is not a regular expression: {error.msg}")


def _expression_problem(text: str) -> str:
    found = _expression_of(text)
    return found.text if isinstance(found, _ExpressionProblem) else ""


_DEVICE: Final = RecordShape(
    "device of smarter-device-manager",
    "Files below /dev, each of which is a resource.",
    lambda: (
        Field(_MATCH, TextShape(_expression_problem), "Regular expression for names from /dev on.", is_required=True),
        Field(_NUMBER, NumberShape(0, _MOST), "Containers that may use a file at a time.", is_required=True),
    ),
)


def is_of_smarter(node: Node) -> bool:
    """Whether a text is a list with an entry of smarter-device-manager."""
    items = node.items if isinstance(node, Series) else ()
    return any(
        each.key.lower() in (_MATCH, _NUMBER) for item in items if isinstance(item, Keys) for each in item.entries
    )


def read_of_smarter(node: Node, findings: ConfigFindings, context: ShapeContext, *, domain: str) -> GenericConfig:
    """All entries of such a file, as one of ours that makes a resource of each file.

    Args:
        domain: instead of that of smarter-device-manager; empty for that.
    """
    read = ListShape(_DEVICE).read(node, (), context)
    records = [each for each in read if isinstance(each, Record)] if isinstance(read, tuple) else []
    entry = Entry(
        name="{name}",
        domain=domain or _DOMAIN,
        groups=tuple(_groups(records, findings))[::-1],
        spelling=NameSpelling.OF_FILES,
        spot=node.spot,
        source=findings.source,
    )
    return GenericConfig(findings.source, (entry,), warnings=in_order(findings.warnings))


def _groups(records: Sequence[Record], findings: ConfigFindings) -> Iterator[RuleGroup]:
    """A group for each entry that gives devices; where several match a name, the last one counts, as there."""
    later: list[re.Pattern[str]] = []
    for record in reversed(records):
        text = record.get(_MATCH, str, "")
        expression = _expression_of(text)
        if text == _OF_NVIDIA:
            problem = "GPUs are not served by this plugin, so that this entry gives none; see `plugbay serve nvidia`"
            findings.warn(record.spot_of(_MATCH), (*record.path, _MATCH), problem)
        elif record.values.get(_NUMBER) == 0:
            problem = "is 0, so that this entry gives no device"
            findings.warn(record.spot_of(_NUMBER), (*record.path, _NUMBER), problem)
        elif isinstance(expression, re.Pattern):
            names = DevNames(expression, later=tuple(later))
            yield RuleGroup(names, count=record.get(_NUMBER, int, 1), spot=record.spot)
            later.append(expression)
