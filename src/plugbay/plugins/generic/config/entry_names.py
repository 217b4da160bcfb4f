"""Names of resources in a config: a text or a template, with or without a domain of its own. Pure."""

from __future__ import annotations

from typing import Final

from plugbay.model.ids import is_extended_resource
from plugbay.plugins.generic.config.problems import short
from plugbay.plugins.generic.config.text_checks import template_problem
from plugbay.plugins.generic.templates.template import Template, parse_template
from plugbay.values import dataclass

_SAMPLE: Final = "x"
_LETTERS: Final = "lower-case letters, digits, and -, _ or . between them, 63 characters at most"


@dataclass(frozen=True, slots=True)
class EntryName:
    """The name of an entry behind its domain; a template if it has gaps."""

    domain: str
    name: str


def parse_entry_name(text: str, *, domain: str) -> EntryName | str:
    """The name, or a sentence that says what is wrong with it.

    Args:
        domain: for a name without a domain of its own.
    """
    own, slash, rest = text.partition("/")
    found = EntryName(own, rest) if slash and "{" not in own else EntryName(domain, text)
    if problem := template_problem(found.name):
        return problem
    template = parse_template(found.name)
    assert isinstance(template, Template)
    if not found.name:
        return "is empty; write the name of the resource behind the domain, such as serial"
    if found.name != found.name.lower() and not template.names:
        hint = f'; did you mean "{found.name.lower()}"?' if is_extended_resource(f"a/{found.name.lower()}") else ""
        return f"{short(found.name)} is not the name of a resource: {_LETTERS}{hint}"
    if not is_extended_resource(f"{found.domain}/{_sample(template)}"):
        if is_extended_resource(f"example.com/{_sample(template)}"):
            return f"{short(found.domain)} is not a domain of resources: the kubelet would refuse it"
        return f"{short(found.name)} is not the name of a resource: {_LETTERS}"
    return found


def _sample(template: Template) -> str:
    return template.fill(dict.fromkeys(template.names, _SAMPLE))
