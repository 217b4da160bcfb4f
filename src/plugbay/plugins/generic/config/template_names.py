"""The properties of a device that templates of a config name, and whether a unit can have them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from plugbay.plugins.generic.config.rules import Entry, Interfaces, Match, RuleGroup, Tokens, Usb, What
from plugbay.plugins.generic.templates.template import Template, parse_template

_OF_NODES = frozenset({"path", "hostPath", "node"})
_OF_TOKENS = frozenset({"name"})


def names_asked(entry: Entry, group: RuleGroup) -> tuple[str, ...]:
    """The names in the templates of a group and of its entry, sorted."""
    found = {name for text in (entry.name, *(text for _, text in _texts(group))) for name in names_in(text)}
    return tuple(sorted(found))


def names_never_there(group: RuleGroup) -> Iterator[tuple[str, str]]:
    """The names in the templates of a group that none of its units has, each with the field that it is in."""
    for field, text in _texts(group):
        for name in names_in(text):
            if not may_have(group.what, name):
                yield field, name


def may_have(what: What, name: str) -> bool:
    """Whether units of a kind may have a property of this name."""
    match what:
        case Tokens():
            return name in _OF_TOKENS
        case Interfaces():
            return name not in _OF_NODES
        case _:
            return True


def names_in(text: str) -> tuple[str, ...]:
    """The names in a template; none in a text that is not a template."""
    template = parse_template(text, takes_index=True)
    return template.names if isinstance(template, Template) else ()


def _texts(group: RuleGroup) -> Iterable[tuple[str, str]]:
    gifts = group.gifts
    for field, texts in (("env", gifts.env), ("annotations", gifts.annotations)):
        yield from ((field, text) for each in texts.items() for text in each)
    for mount in gifts.mounts:
        yield from (("mounts", text) for text in (mount.host_path, mount.container_path))
    for field, command in (("release", group.release), ("health", group.health.command)):
        yield from ((field, word) for word in (command.words if command else ()))
    match group.what:
        case Usb(nodes=nodes) | Match(nodes=nodes):
            yield from (("nodes", rule.mount_path) for rule in nodes)
        case Interfaces(container_name=name):
            yield "interfaceName", name
        case _:
            pass
