"""The names of resources: fixed ones, and those of a template, which every unit fills with its own properties. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from plugbay.errors import InvalidResourceName
from plugbay.model.dns import MAX_LABEL
from plugbay.model.ids import ResourceName, parse_resource_name
from plugbay.plugins.generic.config.rules import Entry, NameSpelling
from plugbay.plugins.generic.templates.template import Template, TemplateProblem, parse_template
from plugbay.values import dataclass

_REFUSED: Final = re.compile(r"[^a-z0-9]+")
_NOT_OF_FILES: Final = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Unnamed:
    """Why a unit has no resource; ``text`` is a sentence."""

    text: str


class EntryNames:
    """The resources of an entry.

    Attributes:
        fixed: the only resource; None for a template with properties, or for a name that is refused.
        problem: a sentence, if no unit can ever be named.
        properties: of the template, in order.
    """

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._template = parse_template(entry.name)
        self.fixed: ResourceName | None = None
        self.problem = ""
        self.properties: tuple[str, ...] = ()
        match self._template:
            case TemplateProblem(text=text):
                self.problem = f"The name {entry.name!r} is not a template: {text}. The entry has no resource."
            case Template(names=()):
                name = self._checked(self._template.fill({}))
                if name is None:
                    self.problem = f"{_refusal(entry.domain, entry.name)} The entry has no resource."
                self.fixed = name
            case Template(names=names):
                self.properties = names

    def of(self, facts: Mapping[str, str], unit: str) -> ResourceName | Unnamed:
        """The resource of a unit, or why it has none.

        Args:
            unit: what the sentence calls it.
        """
        if self.fixed is not None:
            return self.fixed
        if isinstance(self._template, TemplateProblem) or not self.properties:
            return Unnamed(self.problem)
        words = {name: _spelt(facts.get(name, ""), self._entry.spelling) for name in self.properties}
        absent = [name for name, word in words.items() if not word]
        if absent:
            properties = " or ".join(absent)
            return Unnamed(
                f"{unit} has no {properties}, so {self._entry.name!r} does not name it; use another property."
            )
        filled = self._template.fill(words)
        refusal = f"{_refusal(self._entry.domain, filled)} {unit} belongs to no resource."
        return self._checked(filled) or Unnamed(refusal)

    def _checked(self, text: str) -> ResourceName | None:
        try:
            return parse_resource_name(f"{self._entry.domain}/{text}")
        except InvalidResourceName:
            return None


def _spelt(value: str, spelling: NameSpelling) -> str:
    match spelling:
        case NameSpelling.IN_WORDS:
            return _REFUSED.sub("-", value.lower()).strip("-")
        case NameSpelling.OF_FILES:
            return _NOT_OF_FILES.sub("_", value)


def _refusal(domain: str, text: str) -> str:
    if len(text) > MAX_LABEL:
        return f"The name {text!r} has {len(text)} characters, and Kubernetes takes {MAX_LABEL} at most."
    return f"Kubernetes does not take {f'{domain}/{text}'!r} as the name of a resource."
