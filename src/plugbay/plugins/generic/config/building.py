"""Rules from the records of a config, and what fields say only together. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from plugbay.plugins.generic.config.additions import Additions, additions_of
from plugbay.plugins.generic.config.compat import Compat
from plugbay.plugins.generic.config.entry_names import EntryName, parse_entry_name
from plugbay.plugins.generic.config.fields import GROUP_FIELDS, KINDS
from plugbay.plugins.generic.config.globs import Glob, parse_glob
from plugbay.plugins.generic.config.problems import ConfigFindings, short
from plugbay.plugins.generic.config.records import Record
from plugbay.plugins.generic.config.rules import (
    Entry,
    Interfaces,
    Match,
    NodeRule,
    PathKind,
    PathRule,
    Paths,
    PreferenceRule,
    RuleGroup,
    Tokens,
    Usb,
    UsbRule,
    What,
)
from plugbay.plugins.generic.config.selectors import node_rule_of, selector_of
from plugbay.plugins.generic.config.template_names import may_have, names_in, names_never_there

_ONLY_WITH = {
    "bundle": ("usb",),
    "nodes": ("usb", "match"),
    "rawNode": ("usb",),
    "each": ("match",),
    "interfaceName": ("interfaces",),
    "count": ("paths", "usb", "match"),
    "onePerContainer": ("paths", "usb", "match"),
}
"""Fields of a group that mean something with certain kinds only."""
_WHOSE: dict[type[What], str] = {Tokens: "tokens have", Interfaces: "network interfaces have"}
_WHY_NOT_SHARED = "; a network interface is in one pod at a time"


class EntryBuilder:
    """Makes entries of records, and notes what is wrong with them.

    Args:
        domain: of entries without their own.
        skips_empty_usb: whether a USB rule that says nothing is ignored, as in MicroShift.
    """

    def __init__(
        self, findings: ConfigFindings, *, domain: str, compat: frozenset[Compat], skips_empty_usb: bool = False
    ) -> None:
        self._findings = findings
        self._domain = domain
        self._compat = compat
        self._skips_empty_usb = skips_empty_usb

    def build(self, records: Sequence[Record]) -> tuple[Entry, ...]:
        """The entries that can be made; those with the name of one before are refused."""
        entries: dict[tuple[str, str], Entry] = {}
        for record in records:
            entry = self._entry(record)
            if entry is None:
                continue
            before = entries.get((entry.domain, entry.name))
            if before is not None:
                problem = f"{entry.domain}/{entry.name} is there already, in line {before.spot.line}; names are unique"
                self._findings.error(record.spot_of("name"), (*record.path, "name"), problem)
                continue
            entries[(entry.domain, entry.name)] = entry
        return tuple(entries.values())

    def _entry(self, record: Record) -> Entry | None:
        name = self._name(record)
        shared = additions_of(record, self._findings)
        if record.has("groups"):
            for field in GROUP_FIELDS:
                if record.has(field):
                    problem = f"{field} belongs into a group, as there are groups"
                    self._findings.forgivable(
                        record.spot_of(field), (*record.path, field), problem, instead="it is ignored"
                    )
            groups = [self._group(each, shared) for each in record.records("groups")]
        else:
            groups = [self._group(record, shared)]
        sound = tuple(each for each in groups if each is not None)
        for each in sound:
            if each.gifts.cdi_kind != sound[0].gifts.cdi_kind:
                problem = "has another cdi than the first group; the groups of a resource have one kind of CDI spec"
                self._findings.error(each.spot, record.path, problem)
        if name is None:
            return None
        self._check_name(record, name, sound)
        return Entry(
            name=name.name,
            domain=name.domain,
            groups=sound,
            prefers=PreferenceRule(record.get("prefer", str, PreferenceRule.NUMA.value)),
            is_shared=record.get("shared", bool, Compat.SHARED_PATHS in self._compat),
            spot=record.spot_of("name"),
            source=self._findings.source,
        )

    def _name(self, record: Record) -> EntryName | None:
        text = record.values.get("name")
        if not isinstance(text, str):
            return None
        name = parse_entry_name(text, domain=record.get("domain", str, self._domain))
        if isinstance(name, str):
            self._findings.error(record.spot_of("name"), (*record.path, "name"), name)
            return None
        return name

    def _check_name(self, record: Record, name: EntryName, groups: Sequence[RuleGroup]) -> None:
        """Refuse a template that some group's units could never fill: they would belong to no resource."""
        for group in groups:
            if absent := [each for each in names_in(name.name) if not may_have(group.what, each)]:
                problem = f"{short(name.name)} names no resource: {_WHOSE[type(group.what)]} no {{{absent[0]}}}"
                self._findings.error(record.spot_of("name"), (*record.path, "name"), problem)
                return

    # --- groups -----------------------------------------------------------------------------------------------------

    def _group(self, record: Record, shared: Additions) -> RuleGroup | None:
        kinds = sorted((each for each in KINDS if record.has(each)), key=record.spot_of)
        if not kinds:
            problem = f"has none of {', '.join(KINDS)}, so that it would have no device"
            self._findings.forgivable(record.spot, record.path, problem, instead="it gives no device")
            return None
        if len(kinds) > 1:
            problem = f"{kinds[1]} and {kinds[0]} exclude each other in one group; make a group of each"
            self._findings.error(record.spot_of(kinds[1]), (*record.path, kinds[1]), problem)
            return None
        for field, allowed in _ONLY_WITH.items():
            if record.has(field) and kinds[0] not in allowed:
                problem = f"means nothing with {kinds[0]}, only with {' or '.join(allowed)}"
                if kinds[0] == "interfaces" and field in ("count", "onePerContainer"):
                    problem += _WHY_NOT_SHARED
                self._findings.error(record.spot_of(field), (*record.path, field), problem)
        what = self._what(record, kinds[0])
        if what is None:
            return None
        own = additions_of(record, self._findings).over(shared)
        group = RuleGroup(
            what=what,
            count=record.get("tokens" if kinds[0] == "tokens" else "count", int, 1) or 1,
            has_one_share_per_container=record.get("onePerContainer", bool, False),
            gifts=own.gifts,
            health=own.health,
            release=own.release,
            numa_nodes=own.numa_nodes,
            spot=record.spot,
        )
        for field, name in dict.fromkeys(names_never_there(group)):
            problem = f"{{{name}}} would always be empty: {_WHOSE[type(what)]} no such property"
            self._findings.error(record.spot_of(field), (*record.path, field), problem)
        return group

    def _what(self, record: Record, kind: str) -> What | None:
        match kind:
            case "paths":
                rules = tuple(self._path(each) for each in record.records("paths"))
                return Paths(rules) if rules else None
            case "usb":
                return self._usb(record)
            case "tokens":
                return Tokens() if "tokens" in record.values else None
        chosen = record.record(kind)
        if chosen is None:
            return None
        selector = selector_of(chosen)
        if selector is None:
            return None
        if kind == "interfaces":
            return Interfaces(selector, record.get("interfaceName", str, ""))
        return Match(selector, tuple(self._nodes(record)), is_each=record.get("each", bool, False))

    def _path(self, record: Record) -> PathRule:
        kind = PathKind(record.get("type", str, PathKind.DEVICE.value))
        is_device = kind is PathKind.DEVICE
        is_read_only = record.get("readOnly", bool, False)
        if is_device and is_read_only:
            self._forgive(record, "readOnly", "counts for type: Mount only; a device has permissions: r")
        if not is_device and record.get("permissions", str, ""):
            self._forgive(record, "permissions", "counts for type: Device only; a mount has readOnly: true")
        if "{" in record.get("mountPath", str, ""):
            self._findings.warn(
                record.spot_of("mountPath"),
                (*record.path, "mountPath"),
                "is not a template here, so that its braces stay; match and nodes have a mountPath that is one",
            )
        glob = parse_glob(record.get("path", str, "/"))
        assert isinstance(glob, Glob), "its shape has checked it"
        return PathRule(
            pattern=glob.text,
            mount_path=record.get("mountPath", str, ""),
            kind=kind,
            permissions=(record.get("permissions", str, "") or "mrw") if is_device else "",
            is_read_only=is_read_only and not is_device,
            limit=record.get("limit", int, 1) or 1,
            is_optional=record.get("optional", bool, False),
            resolves=record.get("resolve", bool, False),
            takes_any_file=record.get("anyFile", bool, Compat.ANY_FILE in self._compat),
            spot=record.spot,
        )

    def _usb(self, record: Record) -> Usb | None:
        rules = tuple(self._usb_rules(record.records("usb")))
        nodes = tuple(self._nodes(record))
        has_raw_node = record.get("rawNode", bool, not record.has("nodes"))
        has_readable_nodes = "nodes" in record.values or not record.has("nodes")
        if not has_raw_node and not record.records("nodes") and has_readable_nodes:
            field = "rawNode" if record.has("rawNode") else "nodes"
            problem = "leaves a container no node, so that the group would have no device; write nodes, such as tty"
            self._findings.error(record.spot_of(field), (*record.path, field), problem)
        if not rules:
            return None
        return Usb(
            rules,
            bundles=record.get("bundle", bool, Compat.USB_BUNDLES in self._compat),
            nodes=nodes,
            has_raw_node=has_raw_node,
        )

    def _usb_rules(self, records: Sequence[Record]) -> Iterator[UsbRule]:
        absent = 0 if self._findings.is_lenient else None  # an ignored misspelt key must not widen the choice
        for record in records:
            vendor, product = (record.values.get(name, absent) for name in ("vendor", "product"))
            assert vendor is None or isinstance(vendor, int)
            assert product is None or isinstance(product, int)
            rule = UsbRule(vendor, product, record.get("serial", str, ""), record.spot)
            if any(record.has(name) for name in ("vendor", "product", "serial")):
                yield rule
            elif not self._skips_empty_usb:
                problem = "has none of vendor, product and serial, so that it would choose every device"
                self._findings.error(record.spot, record.path, problem)

    def _nodes(self, record: Record) -> Iterator[NodeRule]:
        for each in record.records("nodes"):
            rule = node_rule_of(each)
            if rule is not None:
                yield rule
            elif not set(each.spots) - {"mountPath", "permissions", "optional"}:
                problem = "has no property that chooses nodes, such as subsystem: tty"
                self._findings.error(each.spot, each.path, problem)

    def _forgive(self, record: Record, field: str, problem: str) -> None:
        self._findings.forgivable(record.spot_of(field), (*record.path, field), problem, instead="it is ignored")
