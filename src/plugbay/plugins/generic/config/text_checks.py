"""Checks of texts in a config: each says in a sentence what is wrong with one, or nothing. Pure."""

from __future__ import annotations

from typing import Final

from plugbay.cdi.names import parse_kind
from plugbay.errors import InvalidCdiName
from plugbay.model.dns import is_subdomain
from plugbay.model.ids import is_extended_resource
from plugbay.plugins.generic.config.host_paths import container_path_problem
from plugbay.plugins.generic.config.problems import short, suggestion
from plugbay.plugins.generic.config.selector_fields import PROPERTIES, key_problem
from plugbay.plugins.generic.templates.template import Template, TemplateProblem, parse_template

FACTS: Final = (*PROPERTIES, "path", "hostPath", "identity")
"""Properties that templates may name, beside ``attr:NAME`` and ``property:KEY``."""
_LONGEST_INTERFACE: Final = 15
_TAKEN_INTERFACES: Final = ("lo", "eth0")


def template_problem(text: str) -> str:
    """Templates with ``{name}`` of properties."""
    return _problem_of(parse_template(text))


def variable_problem(text: str) -> str:
    """Names of variables: templates that may have ``${index}`` too."""
    problem = _problem_of(parse_template(text, takes_index=True))
    if problem:
        return problem
    is_name = text and "=" not in text and text.isprintable()
    return "" if is_name else f"{short(text)} is not the name of a variable"


def annotation_problem(text: str) -> str:
    """Keys of annotations."""
    is_key = text and text.isprintable() and " " not in text
    return "" if is_key else f"{short(text)} is not the key of an annotation"


def host_template_problem(text: str) -> str:
    """Paths of the host with properties."""
    if not text.startswith(("/", "{")):
        return f"{short(text)} is not a path from the root; write it with a / in front"
    return template_problem(text)


def container_template_problem(text: str) -> str:
    """Paths in a container with properties."""
    return template_problem(text) or ("" if text.startswith("{") else container_path_problem(text))


def interface_problem(text: str) -> str:
    """Names of network interfaces in a pod: templates."""
    if problem := template_problem(text):
        return problem
    if text in _TAKEN_INTERFACES:
        return f"{text} is the name of an interface that every pod has; write another, such as net1"
    if "{" in text:
        return ""
    is_name = text and len(text.encode()) <= _LONGEST_INTERFACE and text.isprintable() and not set(text) & set("/: ")
    return "" if is_name else f"{short(text)} is not the name of an interface: 1 to 15 characters without / and :"


def domain_problem(text: str) -> str:
    """Domains of resources."""
    if not text:
        return "is empty; write the part in front of the / in the names of resources, such as example.com"
    if not is_subdomain(text):
        return f"{short(text)} is not a domain: lower-case letters, digits, - and dots"
    if not is_extended_resource(f"{text}/x"):
        return f"{short(text)} is not a domain of resources: the kubelet would refuse it; write one such as example.com"
    return ""


def kind_problem(text: str) -> str:
    """Kinds of CDI specs."""
    try:
        parse_kind(text)
    except InvalidCdiName as error:
        return f"{short(text)} is not the kind of a CDI spec, such as example.com/serial: {error}"
    return ""


def _problem_of(found: Template | TemplateProblem) -> str:
    if isinstance(found, TemplateProblem):
        return found.text
    for name in found.names:
        if name not in FACTS and not name.startswith(("attr:", "property:")):
            known = suggestion(name, FACTS) or f"; known are {', '.join(FACTS)}, attr:NAME and property:KEY"
            return f"{{{name}}} is not a property{known}"
        if name not in FACTS and (problem := key_problem(name.partition(":")[2])):
            return f"{{{name}}} {problem}"
    return ""
