"""Devices for units: everything that a container gets with one, whatever else it gets. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from plugbay.cdi.names import parse_kind
from plugbay.errors import InvalidCdiName, InvalidDevice
from plugbay.model.devices import MAX_NUMA_NODE, Device
from plugbay.model.edits import DeviceNode, Mount, NetworkInterface
from plugbay.plugins.generic.config.rules import Entry, Gifts, Interfaces
from plugbay.plugins.generic.selecting.units import Unit
from plugbay.plugins.generic.templates import places
from plugbay.plugins.generic.templates.template import TemplateProblem

LinksOf = Callable[[str], Sequence[str]]
"""The links below ``/dev`` that lead to a node of the host, such as those in ``/dev/serial/by-id``."""

NodesIn = Callable[[str], Sequence[str] | None]
"""The device nodes in a directory of the host; None for a path that is not a directory."""

_KIND: Final = "plugbay.interfaces/net"
_Placed = TypeVar("_Placed", Mount, DeviceNode)


def no_links(node: str) -> Sequence[str]:
    """The links of a machine without links."""
    return ()


def no_directories(path: str) -> None:
    """No path is a directory."""


def device_of(unit: Unit, *, links_of: LinksOf = no_links, nodes_in: NodesIn = no_directories) -> Device:
    """The healthy device that a unit is.

    Where links are kept, the container gets the node at the paths of its links as well: an answer of a device plugin
    has no links, and engines make nodes and their directories at any path. A directory in an answer stands for the
    nodes in it, and in a CDI spec for nothing, so that they are named there.

    Raises:
        InvalidDevice: a template or the unit's nodes come to something that no container can have.
    """
    gifts = unit.group.gifts
    has_cdi = bool(cdi_kind_of(unit.entry))
    nodes = list(_nodes_below(unit, nodes_in)) if has_cdi else list(unit.nodes)
    if gifts.keeps_links:
        nodes += list(_links(nodes, links_of))
    return Device(
        unit.id,
        numa_nodes=[node for node in unit.numa_nodes if 0 <= node <= MAX_NUMA_NODE],
        device_nodes=_placed(unit, nodes),
        mounts=_placed(unit, [*unit.mounts, *_mounts(unit, gifts)]),
        env=env_of(unit),
        annotations={} if has_cdi else annotations_of(unit),
        interfaces=_interfaces(unit),
    )


def cdi_kind_of(entry: Entry) -> str:
    """The CDI kind of an entry's resources; empty for none.

    Network interfaces go by CDI alone, so that an entry with some has a kind in any case: it is made of its name.
    """
    if given := next((group.gifts.cdi_kind for group in entry.groups if group.gifts.cdi_kind), ""):
        return given
    if not any(isinstance(group.what, Interfaces) for group in entry.groups):
        return ""
    try:
        return str(parse_kind(f"{entry.domain}/{entry.name}"))
    except InvalidCdiName:
        return _KIND


def env_of(unit: Unit, *, index: int | None = None) -> dict[str, str]:
    """The variables of a unit: those without the index, or with ``index`` only those with it.

    Raises:
        InvalidDevice: a name cannot be made.
    """
    rules = unit.group.gifts.env
    wanted = {key: rules[key] for key in rules if places.has_index(key) is (index is not None)}
    return _filled(unit, "variable", wanted, index)


def annotations_of(unit: Unit) -> dict[str, str]:
    """The annotations of a unit; raises InvalidDevice as `env_of` does."""
    return _filled(unit, "annotation", unit.group.gifts.annotations, None)


def _filled(unit: Unit, what: str, rules: Mapping[str, str], index: int | None) -> dict[str, str]:
    filled: dict[str, str] = {}
    for key, value in rules.items():
        name = _text(unit, what, places.filled_key(key, unit.facts, index=index))
        if name in filled:
            raise InvalidDevice(unit.id, f"two templates of its {what}s come to the same name {name}")
        filled[name] = _text(unit, f"{what} {name}", places.filled_text(value, unit.facts))
    return filled


def _nodes_below(unit: Unit, nodes_in: NodesIn) -> Iterator[DeviceNode]:
    for node in unit.nodes:
        inside = nodes_in(node.host_path)
        if inside is None:
            yield node
            continue
        if not inside:
            raise InvalidDevice(unit.id, f"{node.host_path} has no device node, and a CDI spec names nodes only")
        for path in inside:
            place = node.container_path.rstrip("/") + path[len(node.host_path.rstrip("/")) :]
            yield DeviceNode(path, container_path=place, permissions=node.permissions)


def _links(nodes: Iterable[DeviceNode], links_of: LinksOf) -> Iterator[DeviceNode]:
    for node in nodes:
        for link in links_of(node.host_path):
            yield DeviceNode(node.host_path, container_path=link, permissions=node.permissions)


def _mounts(unit: Unit, gifts: Gifts) -> Iterator[Mount]:
    for rule in gifts.mounts:
        host = _text(unit, "mount", places.filled_path(rule.host_path, unit.facts))
        place = _text(unit, "mount", places.container_path(rule.container_path, host, unit.facts))
        yield Mount(host, container_path=place, read_only=rule.is_read_only)


def _interfaces(unit: Unit) -> Iterator[NetworkInterface]:
    what = unit.group.what
    template = what.container_name if isinstance(what, Interfaces) else ""
    for name in unit.interfaces:
        inside = _text(unit, "interface", places.filled_key(template, unit.facts)) if template else name
        yield NetworkInterface(name, inside)


def _placed(unit: Unit, wanted: Iterable[_Placed]) -> list[_Placed]:
    """Each thing once; two at the same path are a problem."""
    by_place: dict[str, _Placed] = {}
    for each in wanted:
        before = by_place.setdefault(each.container_path, each)
        if before != each:
            ways = f"{before.host_path} and {each.host_path}" if before.host_path != each.host_path else each.host_path
            raise InvalidDevice(
                unit.id,
                f"{each.container_path} is wanted twice in one container, for {ways}: give them other mountPaths",
            )
    return list(by_place.values())


def _text(unit: Unit, what: str, filled: str | TemplateProblem) -> str:
    if isinstance(filled, TemplateProblem):
        raise InvalidDevice(unit.id, f"its {what} cannot be made: {filled.text}")
    return filled
