"""The properties of a unit that templates of its rules ask for; others are not read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from plugbay.plugins.generic.config.rules import Entry, Interfaces, Match, RuleGroup, Usb
from plugbay.plugins.generic.machine.values import SysDevice
from plugbay.plugins.generic.selecting.ports import Hardware
from plugbay.plugins.generic.templates.template import Template, parse_template

IDENTITY = "identity"


def names_asked(entry: Entry, group: RuleGroup) -> tuple[str, ...]:
    """The names in the templates of a group and of its entry, sorted."""
    found: set[str] = set()
    for text in (entry.name, *_texts(group)):
        template = parse_template(text, takes_index=True)
        if isinstance(template, Template):
            found.update(template.names)
    return tuple(sorted(found))


def facts_of(
    names: Iterable[str], device: SysDevice | None, own: Mapping[str, str], hardware: Hardware
) -> dict[str, str]:
    """Those of ``names`` that a device has, and those that a unit has of its own, which count first."""
    facts = dict(own)
    if device is not None:
        for name in names:
            if name not in facts:
                value = hardware.identity(device) if name == IDENTITY else hardware.property_of(device, name)
                if value is not None:
                    facts[name] = value
    return facts


def _texts(group: RuleGroup) -> Iterable[str]:
    gifts = group.gifts
    for texts in (gifts.env, gifts.annotations):
        yield from texts.keys()
        yield from texts.values()
    for mount in gifts.mounts:
        yield from (mount.host_path, mount.container_path)
    for command in (group.release, group.health.command):
        yield from command.words if command else ()
    match group.what:
        case Usb(nodes=nodes) | Match(nodes=nodes):
            yield from (rule.mount_path for rule in nodes)
        case Interfaces(container_name=name):
            yield name
        case _:
            pass
