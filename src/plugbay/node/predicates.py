"""Whether a kubelet would keep a pod that has come to its node, whoever sent it: pure.

Source: kubelet 1.36 ``lifecycle/predicate.go``, ``noderesources/fit.go``; spec 4.11.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plugbay.model.ids import ResourceName, is_extended_resource
from plugbay.node.records import Rejection
from plugbay.node.scheduler import Amounts

_FIRST: Final = ("pods", "cpu", "memory", "ephemeral-storage")
"""The node's own resources in the order in which they are looked at; others come after them."""


def resources_fit(needed: Amounts, *, used: Amounts, allocatable: Amounts) -> Rejection | None:
    """Why there is not enough for a pod; the first reason of several.

    An extended resource of which the node knows nothing does not count: it is looked after elsewhere, if at all.
    """
    rest = sorted(needed.keys() - set(_FIRST))
    for name in (*_FIRST, *rest):
        amount = needed.get(name, 0)
        if name not in allocatable and is_extended_resource(name):
            continue
        if amount > 0 and used.get(name, 0) + amount > allocatable.get(name, 0):
            return out_of(name, needed=needed, used=used, allocatable=allocatable)
    return None


def out_of(name: str, *, needed: Amounts, used: Amounts, allocatable: Amounts) -> Rejection:
    """The rejection of a pod for which there is not enough of a resource."""
    return Rejection(
        f"OutOf{name}",
        f"Node didn't have enough resource: {name}, requested: {needed[name]}, used: {used.get(name, 0)}, "
        f"capacity: {allocatable.get(name, 0)}",
    )


def raised(allocatable: Amounts, in_use: Mapping[ResourceName, int]) -> Amounts:
    """What counts as allocatable for a pod that has its devices already.

    It must not be refused because a plugin is gone and nothing is allocatable any more: what somebody holds is there.
    """
    return {**allocatable, **{str(name): max(count, allocatable.get(name, 0)) for name, count in in_use.items()}}
