"""Paths and names made of templates, in which a device's own words cannot lead elsewhere. Pure.

A USB device says its serial number itself, so a stick may call itself ``../../etc``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from plugbay.plugins.generic.templates.template import Template, TemplateProblem, parse_template

_PATHS: Final = frozenset({"hostPath", "node", "path"})
"""The facts that are paths of the kernel; a slash in others does not divide a path."""


def filled_path(text: str, facts: Mapping[str, str]) -> str | TemplateProblem:
    """A path by its template: from the root, and where the template says.

    A slash in a fact becomes ``-``, but for paths of nodes.
    """
    template = _template(text)
    if isinstance(template, TemplateProblem):
        return template
    if missing := template.missing(facts):
        return TemplateProblem(f"{text}: the device has no {missing[0]}", 0)
    path = template.fill({name: value if name in _PATHS else value.replace("/", "-") for name, value in facts.items()})
    if not path.startswith("/"):
        return TemplateProblem(f"{text} is {path!r} for this device, which is not a path from the root", 0)
    if not path.isprintable() or {"..", "."}.intersection(path.split("/")):
        return TemplateProblem(f"{text} is {path!r} for this device, which is not a plain path", 0)
    return path


def container_path(mount_path: str, host_path: str, facts: Mapping[str, str]) -> str | TemplateProblem:
    """The path of a node or mount in the container.

    Args:
        mount_path: a template; the host's path if empty. With a slash at its end it is a directory, in which the
            file has the host's name.
    """
    if not mount_path:
        return host_path
    place = filled_path(mount_path, facts)
    if isinstance(place, TemplateProblem) or not place.endswith("/"):
        return place
    return place + host_path.rstrip("/").rpartition("/")[2]


def filled_text(text: str, facts: Mapping[str, str], *, index: int | None = None) -> str | TemplateProblem:
    """A value of a variable or annotation, in which a property that the device does not have is empty.

    Args:
        index: of the device in its container, for a text that may have it.
    """
    template = _template(text, takes_index=index is not None)
    if isinstance(template, TemplateProblem):
        return template
    return template.fill({**dict.fromkeys(template.missing(facts), ""), **facts}, index=index or 0)


def filled_key(text: str, facts: Mapping[str, str], *, index: int | None = None) -> str | TemplateProblem:
    """A name of a variable or annotation; a property that the device does not have is a problem."""
    template = _template(text, takes_index=index is not None)
    if isinstance(template, TemplateProblem):
        return template
    if missing := template.missing(facts):
        return TemplateProblem(f"{text}: the device has no {missing[0]}", 0)
    return template.fill(facts, index=index or 0)


def has_index(text: str) -> bool:
    """Whether the name of a variable depends on the other devices of the container."""
    template = _template(text, takes_index=True)
    return isinstance(template, Template) and template.has_index


@lru_cache(maxsize=1024)
def _template(text: str, *, takes_index: bool = False) -> Template | TemplateProblem:
    """A config has few templates, and each of them is filled for every device."""
    return parse_template(text, takes_index=takes_index)
