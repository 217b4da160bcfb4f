"""Selectors from the fields that say them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from plugbay.plugins.generic.config.records import Record
from plugbay.plugins.generic.config.rules import AllOf, AnyOf, NodeRule, Not, Selector, Where
from plugbay.plugins.generic.config.selector_fields import PROPERTIES


def selector_of(record: Record) -> Selector | None:
    """The selector that a mapping says; None if it chooses everything."""
    parts = tuple(_parts(record))
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else AllOf(parts)


def node_rule_of(record: Record) -> NodeRule | None:
    """The rule for nodes; None if it chooses every node."""
    selector = selector_of(record)
    if selector is None:
        return None
    return NodeRule(
        selector,
        mount_path=record.get("mountPath", str, ""),
        permissions=record.get("permissions", str, "") or "rw",
        is_optional=record.get("optional", bool, False),
        spot=record.spot,
    )


def _parts(record: Record) -> Iterator[Selector]:
    for name in PROPERTIES:
        if patterns := record.texts(name):
            yield Where(name, patterns, record.spot_of(name))
    for kind, prefix in (("attr", "attr:"), ("property", "property:")):
        given: Mapping[str, object] = record.get(kind, dict, {})
        for key, read in given.items():
            assert isinstance(read, tuple)
            yield Where(f"{prefix}{key}", read, record.spot_of(kind))
    yield from (part for each in record.records("and") if (part := selector_of(each)) is not None)
    if alternatives := tuple(part for each in record.records("or") if (part := selector_of(each)) is not None):
        yield AnyOf(alternatives)
    if (denied := record.record("not")) is not None and (part := selector_of(denied)) is not None:
        yield Not(part)
