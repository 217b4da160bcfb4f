"""The words and the environment of a command about one device. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from plugbay.plugins.generic.config.rules import CommandRule
from plugbay.plugins.generic.selecting.units import Unit
from plugbay.plugins.generic.templates.template import Template, parse_template
from plugbay.values import dataclass

_NO_NAME: Final = re.compile(r"[^A-Z0-9]+")


@dataclass(frozen=True, slots=True)
class UnfilledCommand:
    """A command that cannot be run for a device; ``problem`` is a sentence."""

    problem: str


def command_words(rule: CommandRule, unit: Unit) -> tuple[str, ...] | UnfilledCommand:
    """The program and its arguments, with the properties of the device filled in."""
    words = []
    for word in rule.words:
        template = parse_template(word)
        if not isinstance(template, Template):
            return UnfilledCommand(f"{word!r} is not a template: {template.text}")
        if missing := template.missing(unit.facts):
            return UnfilledCommand(f"the command wants {{{missing[0]}}}, which the device does not have")
        words.append(template.fill(unit.facts))
    return tuple(words)


def command_environ(unit: Unit, variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command: that of the process, and the device's resource, ID, nodes and properties.

    Nodes are separated by spaces; a property ``attr:speed`` is the variable ``PLUGBAY_DEVICE_ATTR_SPEED``.
    """
    properties = {f"PLUGBAY_DEVICE_{_NO_NAME.sub('_', name.upper())}": text for name, text in unit.facts.items()}
    return {
        **variables,
        **properties,
        "PLUGBAY_RESOURCE": unit.resource,
        "PLUGBAY_DEVICE_ID": unit.id,
        "PLUGBAY_DEVICE_NODES": " ".join(node.host_path for node in unit.nodes),
    }
