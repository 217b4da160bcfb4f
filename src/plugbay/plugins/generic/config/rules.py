"""The values of a config: resources, groups of rules, and what containers get. Pure, and checked when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from re import Pattern
from typing import Final

from plugbay.plugins.generic.config.problems import ConfigProblem
from plugbay.plugins.generic.config.spots import NOWHERE, Spot
from plugbay.values import dataclass

_DEV: Final = "/dev/"

# --- which devices ---------------------------------------------------------------------------------------------------


class PathKind(Enum):
    """The way in which a container gets a path."""

    DEVICE = "Device"
    MOUNT = "Mount"


@dataclass(frozen=True, slots=True)
class PathRule:
    """A path or pattern of a group of paths, with squat's fields and two of ours.

    Attributes:
        pattern: absolute, with Go's rules: ``*``, ``?``, ``[a-z]``, ``[^a-z]``, and a backslash before a character.
        mount_path: the path in the container; the host's if empty. One with a slash at its end is a directory.
        permissions: of ``r``, ``w``, ``m``; empty for a mount.
        limit: how many units may have one match of it.
        is_optional: whether the group goes on without it when nothing matches.
        resolves: whether a link is followed, and link and target are both given.
        takes_any_file: whether a file that is not a device node may be a device.
    """

    pattern: str
    mount_path: str = ""
    kind: PathKind = PathKind.DEVICE
    permissions: str = "mrw"
    is_read_only: bool = False
    limit: int = 1
    is_optional: bool = False
    resolves: bool = False
    takes_any_file: bool = False
    spot: Spot = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class UsbRule:
    """A USB device by its IDs.

    Attributes:
        vendor, product: numbers of 16 bits; None for any.
        serial: exactly as the device tells it; empty for any.
    """

    vendor: int | None
    product: int | None
    serial: str = ""
    spot: Spot = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Where:
    """A property of a device that has to match one of several shell patterns.

    Attributes:
        name: such as ``vendor``, ``driver``, ``attr:speed`` or ``property:ID_MODEL``; see `machine`.
    """

    name: str
    patterns: tuple[str, ...]
    spot: Spot = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every one of these."""

    parts: tuple[Selector, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of these."""

    parts: tuple[Selector, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of this."""

    part: Selector


Selector = Where | AllOf | AnyOf | Not


@dataclass(frozen=True, slots=True)
class NodeRule:
    """Device nodes of a physical device that a container gets.

    Attributes:
        selector: chooses among the devices of the kernel that belong to the physical device and have a node.
        mount_path: a template; the host's path if empty. One with a slash at its end is a directory.
        is_optional: whether a physical device without such a node is a unit nevertheless.
    """

    selector: Selector
    mount_path: str = ""
    permissions: str = "rw"
    is_optional: bool = False
    spot: Spot = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Paths:
    """Units made of matches of paths that belong together, as squat makes them."""

    rules: tuple[PathRule, ...]


@dataclass(frozen=True, slots=True)
class DevNames:
    """Files at any depth below ``/dev`` whose names match, each a unit, as smarter-device-manager finds them.

    Attributes:
        expression: matches anywhere in a name such as ``video0`` or ``net/tun``.
        later: those of the entries behind it, which count where several match.
    """

    expression: Pattern[str]
    later: tuple[Pattern[str], ...] = field(default=(), compare=False)

    def matches(self, path: str) -> bool:
        """Whether an absolute path would match if it existed."""
        return self.is_like(path) and not any(each.search(_from_dev(path)) for each in self.later)

    def is_like(self, path: str) -> bool:
        """Whether an absolute path matches, whatever the entries behind it say."""
        return path.startswith(_DEV) and self.expression.search(_from_dev(path)) is not None


def _from_dev(path: str) -> str:
    return path.removeprefix(_DEV)


@dataclass(frozen=True, slots=True)
class Usb:
    """USB devices: a unit for each match, or for each complete set where several rules are given.

    Attributes:
        bundles: whether all matches are one unit, as with squat's plugin.
        nodes: given besides the raw node in ``/dev/bus/usb``, or instead of it if ``has_raw_node`` is false.
    """

    rules: tuple[UsbRule, ...]
    bundles: bool = False
    nodes: tuple[NodeRule, ...] = ()
    has_raw_node: bool = True


@dataclass(frozen=True, slots=True)
class Match:
    """Devices by their properties: a unit for each physical device with a device of the kernel that matches.

    Attributes:
        nodes: those given; the nodes of the devices that matched if empty.
        is_each: whether each device that matches is a unit, instead of the physical device it belongs to.
    """

    selector: Selector
    nodes: tuple[NodeRule, ...] = ()
    is_each: bool = False


@dataclass(frozen=True, slots=True)
class Interfaces:
    """Network interfaces, which move into the pod by CDI."""

    selector: Selector
    container_name: str = ""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Units of what is not a file, such as licences: ``count`` of the group says how many."""


What = Paths | DevNames | Usb | Match | Interfaces | Tokens


# --- what a container gets ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MountRule:
    """A mount that comes with each unit; paths are templates."""

    host_path: str
    container_path: str
    is_read_only: bool = False
    spot: Spot = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Gifts:
    """The things beside nodes that a container gets; keys and values are templates.

    Attributes:
        cdi_kind: ``vendor/class`` to describe the units in a CDI spec and give them by name; empty for none.
        keeps_links: whether links of ``/dev/*/by-*`` to its nodes exist in the container too.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[MountRule, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_kind: str = ""
    keeps_links: bool = False


@dataclass(frozen=True, slots=True)
class CommandRule:
    """A command with its arguments, which are templates, and its deadline; ``every_s`` counts for health only."""

    words: tuple[str, ...]
    timeout_s: float = 10.0
    every_s: float = 30.0
    spot: Spot = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class HealthRule:
    """The reasons for which a unit is unhealthy, beside that it has vanished.

    Attributes:
        opens: whether each node has to open.
        needs_driver: whether a driver has to be bound.
        command: exits with 0 for healthy; its first line of output is the reason otherwise.
        grace_s: how long a unit that has vanished stays listed, as unhealthy.
    """

    opens: bool = False
    needs_driver: bool = False
    command: CommandRule | None = None
    grace_s: float = 60.0


class PreferenceRule(Enum):
    """The thing that devices of one container have in common, if possible."""

    NONE = "none"
    NUMA = "numa"
    PCIE_ROOT = "pcieRoot"
    PHYSICAL = "physical"


class NameSpelling(Enum):
    """The spelling of a device's properties in the names of resources that a template makes."""

    IN_WORDS = "lower-case words with hyphens between them"
    OF_FILES = "as files are, with an underscore for all but letters, digits, hyphens and underscores"


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules whose units go into the resource of their entry.

    Attributes:
        count: units made of each match.
        has_one_share_per_container: whether a container gets at most one of the units of a match.
        numa_nodes: instead of what sysfs says; empty is "no information", None is what sysfs says.
    """

    what: What
    count: int = 1
    has_one_share_per_container: bool = False
    gifts: Gifts = Gifts()
    health: HealthRule = HealthRule()
    release: CommandRule | None = None
    numa_nodes: frozenset[int] | None = None
    spot: Spot = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Entry:
    """A resource, or several of them by one template.

    Attributes:
        name: what follows the domain: a text, or a template such as ``{vendor}-{model}``.
        domain: of this entry.
        is_shared: whether its paths may be those of other entries too.
        spelling: of the properties that fill a template.
        source: the name of the text that it stands in, for messages.
    """

    name: str
    domain: str
    groups: tuple[RuleGroup, ...]
    prefers: PreferenceRule = PreferenceRule.NUMA
    is_shared: bool = False
    spelling: NameSpelling = NameSpelling.IN_WORDS
    spot: Spot = field(default=NOWHERE, compare=False)
    source: str = field(default="", compare=False)

    @property
    def title(self) -> str:
        """The word for it in a sentence: its name, or the domain where files of the host are the names."""
        return self.domain if self.spelling is NameSpelling.OF_FILES else self.name


@dataclass(frozen=True, slots=True)
class GenericConfig:
    """All entries of a config.

    Attributes:
        source: the file's name, or what else it comes from, for messages.
        settings: the other top-level settings of squat's file, such as ``listen``, as texts.
        has_compat_ids: whether IDs of USB units are squat's too; those of paths always are.
        warnings: what the operator should know, each with its place; not part of what configs are compared by.
    """

    source: str
    entries: tuple[Entry, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    has_compat_ids: bool = False
    warnings: tuple[ConfigProblem, ...] = field(default=(), compare=False)
