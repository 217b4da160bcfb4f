"""The parts of a group that say what containers get beside nodes, and what is done about devices. Pure."""

from __future__ import annotations

from typing import Any, TypeVar

from plugbay.plugins.generic.config.problems import ConfigFindings
from plugbay.plugins.generic.config.records import Record
from plugbay.plugins.generic.config.rules import CommandRule, Gifts, HealthRule, MountRule
from plugbay.values import dataclass

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class Additions:
    """The parts that a group, or an entry for all its groups, has; None for those that it does not have."""

    env: dict[str, str] | None = None
    mounts: tuple[MountRule, ...] | None = None
    annotations: dict[str, str] | None = None
    cdi_kind: str | None = None
    keeps_links: bool | None = None
    stated_health: HealthRule | None = None
    release: CommandRule | None = None
    numa_nodes: frozenset[int] | None = None

    def over(self, shared: Additions) -> Additions:
        """These parts, and those of the entry where this has none; parts are not mixed."""
        return Additions(
            env=_first(self.env, shared.env),
            mounts=_first(self.mounts, shared.mounts),
            annotations=_first(self.annotations, shared.annotations),
            cdi_kind=_first(self.cdi_kind, shared.cdi_kind),
            keeps_links=_first(self.keeps_links, shared.keeps_links),
            stated_health=_first(self.stated_health, shared.stated_health),
            release=_first(self.release, shared.release),
            numa_nodes=_first(self.numa_nodes, shared.numa_nodes),
        )

    @property
    def gifts(self) -> Gifts:
        """The things that containers get."""
        return Gifts(
            env=self.env or {},
            mounts=self.mounts or (),
            annotations=self.annotations or {},
            cdi_kind=self.cdi_kind or "",
            keeps_links=self.keeps_links or False,
        )

    @property
    def health(self) -> HealthRule:
        """The reasons for which units are unhealthy."""
        return self.stated_health or HealthRule()


def _first(own: Part | None, shared: Part | None) -> Part | None:
    return own if own is not None else shared


def additions_of(record: Record, findings: ConfigFindings) -> Additions:
    """The parts that a group or an entry says."""
    given: dict[str, Any] = dict(record.values)
    mounts = tuple(_mount(each) for each in record.records("mounts")) if "mounts" in given else None
    health, release = record.record("health"), record.record("release")
    return Additions(
        env=given.get("env"),
        mounts=mounts,
        annotations=given.get("annotations"),
        cdi_kind=given.get("cdi"),
        keeps_links=given.get("links"),
        stated_health=None if health is None else _health(health, findings),
        release=None if release is None else _command(release),
        numa_nodes=frozenset(given["numaNodes"]) if "numaNodes" in given else None,
    )


def _mount(record: Record) -> MountRule:
    host = record.get("hostPath", str, "")
    container = record.get("containerPath", str, "") or host
    return MountRule(host, container, record.get("readOnly", bool, False), record.spot)


def _health(record: Record, findings: ConfigFindings) -> HealthRule:
    if not record.has("exec"):
        for name in ("every", "timeout"):
            if record.has(name):
                findings.error(record.spot_of(name), (*record.path, name), "means nothing without exec")
    default = HealthRule()
    return HealthRule(
        opens=record.get("open", bool, default.opens),
        needs_driver=record.get("driver", bool, default.needs_driver),
        command=_command(record),
        grace_s=record.get("grace", float, default.grace_s),
    )


def _command(record: Record) -> CommandRule | None:
    words = record.texts("exec")
    if not words:
        return None
    default = CommandRule(words)
    return CommandRule(
        words,
        timeout_s=record.get("timeout", float, default.timeout_s),
        every_s=record.get("every", float, default.every_s),
        spot=record.spot,
    )
