"""The needs of a plugin process as one value without repetitions. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from plugbay.errors import NeedsRefused
from plugbay.sdk.author.needs import (
    Capability,
    HostDirectory,
    Memory,
    Need,
    NodeName,
    NodeReader,
    OneAtATime,
    OnNodes,
    Privileged,
    Variable,
)
from plugbay.values import dataclass

KUBELET_ROOT: Final = "/var/lib/kubelet"
"""The directory of a kubelet on a cluster's node."""
NODE_NAME: Final = "NODE_NAME"
"""The variable with the name of the node."""
_OWN_MIB: Final = 36
"""The memory of a process with one resource, pages, releases and a CDI spec, as ``VmRSS`` says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginNeeds:
    """The needs of a process with certain plugins; nothing in it is there twice.

    Attributes:
        served: the resources, and the names of sources whose resources only the node shows.
        directories: of the host, by their place in the container; none covers another one.
        capabilities: by name.
        privileged: the reasons for a privileged container, which has every capability.
        variables: by name.
        memory_mib: in use while it serves.
        node_name: the reasons for which the variable ``NODE_NAME`` has to say which node it is; empty if none.
        node_reader: the reasons for which the process gets and watches its node at the API server; empty if none.
        one_at_a_time: the reasons for which no two processes may run on one node; empty if they may.
        nodes: those of which one has to hold for a node, by their selectors; empty for all nodes.
    """

    served: tuple[str, ...]
    directories: tuple[HostDirectory, ...] = ()
    capabilities: tuple[Capability, ...] = ()
    privileged: tuple[str, ...] = ()
    variables: tuple[Variable, ...] = ()
    memory_mib: int = _OWN_MIB
    node_name: tuple[str, ...] = ()
    node_reader: tuple[str, ...] = ()
    one_at_a_time: tuple[str, ...] = ()
    nodes: tuple[OnNodes, ...] = ()


def combined(served: tuple[str, ...], needs: Iterable[Need]) -> PluginNeeds:
    """All ``needs`` of a process that serves ``served``, each once, with all reasons for it.

    Raises:
        NeedsRefused: two of them exclude each other.
    """
    needs = tuple(dict.fromkeys(needs))
    memory = [each.mebibytes for each in needs if isinstance(each, Memory)]
    node_name = tuple(each.reason for each in needs if isinstance(each, NodeName | NodeReader))
    variables = _variables(each for each in needs if isinstance(each, Variable))
    if node_name and (fixed := next((each for each in variables if each.name == NODE_NAME), None)) is not None:
        raise NeedsRefused(
            f"the variable {NODE_NAME} is wanted with two values: {fixed.value!r}, and the name of the node "
            f"({node_name[0]})"
        )
    return PluginNeeds(
        served=served,
        directories=_without_covered(_directories(each for each in needs if isinstance(each, HostDirectory))),
        capabilities=_capabilities(each for each in needs if isinstance(each, Capability)),
        privileged=tuple(each.reason for each in needs if isinstance(each, Privileged)),
        variables=variables,
        memory_mib=max((_OWN_MIB, *memory)),
        node_name=node_name,
        node_reader=tuple(each.reason for each in needs if isinstance(each, NodeReader)),
        one_at_a_time=tuple(each.reason for each in needs if isinstance(each, OneAtATime)),
        nodes=_nodes(each for each in needs if isinstance(each, OnNodes)),
    )


def _directories(wanted: Iterable[HostDirectory]) -> dict[str, HostDirectory]:
    by_place: dict[str, HostDirectory] = {}
    for each in wanted:
        before = by_place.setdefault(each.place, each)
        if before.path != each.path:
            raise NeedsRefused(f"two directories of the host are wanted at {each.place}: {before.path} and {each.path}")
        by_place[each.place] = _with(before, each)
    return by_place


def _with(one: HostDirectory, other: HostDirectory) -> HostDirectory:
    reasons = dict.fromkeys((*one.reason.split("; "), *other.reason.split("; ")))
    return replace(one, reason="; ".join(reasons), writable=one.writable or other.writable)


def _without_covered(by_place: dict[str, HostDirectory]) -> tuple[HostDirectory, ...]:
    """All by place, and those that lie in a directory that is there anyway, with as many rights, as part of that."""
    left: list[HostDirectory] = []
    for _, each in sorted(by_place.items()):
        at = next((at for at, other in enumerate(left) if _covers(other, each)), None)
        if at is None:
            left.append(each)
        else:
            left[at] = _with(left[at], each)
    return tuple(left)


def _covers(outer: HostDirectory, inner: HostDirectory) -> bool:
    if inner.writable and not outer.writable:
        return False
    return is_below(inner.place, outer.place) and _rest(inner.place, outer.place) == _rest(inner.path, outer.path)


def is_below(path: str, place: str) -> bool:
    """Whether ``path`` is ``place`` or lies below it; both from the root."""
    return f"{path}/".startswith(f"{place.rstrip('/')}/")


def _rest(path: str, place: str) -> str | None:
    return path[len(place) :].strip("/") if is_below(path, place) else None


def _capabilities(wanted: Iterable[Capability]) -> tuple[Capability, ...]:
    reasons: dict[str, dict[str, None]] = {}
    for each in wanted:
        reasons.setdefault(each.name, {})[each.reason] = None
    return tuple(Capability(name, "; ".join(whys)) for name, whys in sorted(reasons.items()))


def _nodes(wanted: Iterable[OnNodes]) -> tuple[OnNodes, ...]:
    reasons: dict[str, dict[str, None]] = {}
    for each in wanted:
        reasons.setdefault(each.selector, {})[each.reason] = None
    return tuple(OnNodes(selector, "; ".join(whys)) for selector, whys in sorted(reasons.items()))


def _variables(wanted: Iterable[Variable]) -> tuple[Variable, ...]:
    by_name: dict[str, Variable] = {}
    for each in wanted:
        before = by_name.setdefault(each.name, each)
        if before.value != each.value:
            raise NeedsRefused(
                f"the variable {each.name} is wanted with two values: {before.value!r} and {each.value!r}"
            )
    return tuple(each for _, each in sorted(by_name.items()))
