"""Units of the generic plugin for tests of its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from plugbay.model.edits import DeviceNode, Mount
from plugbay.model.ids import DeviceId, ResourceName
from plugbay.plugins.generic.config.rules import Entry, Gifts, PathRule, Paths, PreferenceRule, RuleGroup, What
from plugbay.plugins.generic.selecting.units import Unit

SERIAL = ResourceName("example.com/serial")
NO_GIFTS = Gifts()
PATHS = Paths((PathRule("/dev/ttyUSB*"),))


def group(gifts: Gifts = NO_GIFTS, *, what: What = PATHS, one_share: bool = False, count: int = 1) -> RuleGroup:
    return RuleGroup(what, gifts=gifts, has_one_share_per_container=one_share, count=count)


def unit(
    id: str,
    rules: RuleGroup | None = None,
    *,
    nodes: Sequence[DeviceNode] = (),
    mounts: Sequence[Mount] = (),
    facts: Mapping[str, str] | None = None,
    physical: str = "",
    pcie_root: str = "",
    numa_nodes: frozenset[int] = frozenset(),
    prefers: PreferenceRule = PreferenceRule.NUMA,
) -> Unit:
    rules = rules or group()
    entry = Entry("serial", "example.com", (rules,), prefers=prefers)
    return Unit(
        DeviceId(id),
        SERIAL,
        entry,
        rules,
        0,
        nodes=tuple(nodes),
        mounts=tuple(mounts),
        facts=facts or {},
        physical=physical or id,
        pcie_root=pcie_root,
        numa_nodes=numa_nodes,
    )


def tty(number: int, gifts: Gifts = NO_GIFTS, *, mount_path: str = "", **changes: object) -> Unit:
    """A serial port on ``/dev/ttyUSB<number>``."""
    path = f"/dev/ttyUSB{number}"
    made = unit(
        f"tty{number}",
        group(gifts),
        nodes=[DeviceNode(path, container_path=mount_path or None)],
        facts={"path": path, "name": f"ttyUSB{number}", "serial": f"000{number}"},
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # fields of a unit
