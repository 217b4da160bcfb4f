"""The rights that the plugin needs on a node, by its rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, assert_never

from plugbay.errors import NeedsRefused
from plugbay.plugins.generic.answers.devices import cdi_kind_of
from plugbay.plugins.generic.config.rules import (
    AllOf,
    AnyOf,
    Entry,
    GenericConfig,
    Interfaces,
    Match,
    Not,
    Paths,
    RuleGroup,
    Selector,
    Tokens,
    Usb,
    Where,
)
from plugbay.sdk.author.needs import HostDirectory, Need, OneAtATime, Privileged
from plugbay.sdk.cdi.directory import CDI_DIRECTORY

_SPECIAL: Final = frozenset("*?[\\{")
_SEEN_ANYWAY: Final = ("/dev", "/sys")
_OF_UDEV: Final = "property:"
_CGROUPS: Final = "/sys/fs/cgroup"
_POD_RESOURCES: Final = "/var/lib/kubelet/pod-resources"


def generic_needs(config: GenericConfig) -> Sequence[Need]:
    """The needs of a process with the rules of ``config``; reading device nodes and sysfs takes no capability.

    Raises:
        NeedsRefused: a path lies right below the host's root.
    """
    return tuple(dict.fromkeys(_needs(config)))


def _needs(config: GenericConfig) -> Iterator[Need]:
    groups = [group for entry in config.entries for group in entry.groups]
    if any(not isinstance(group.what, Tokens) for group in groups):
        yield HostDirectory("/dev", "the device nodes of the host")
    for entry in config.entries:
        yield from _needs_of_entry(entry)
        for group in entry.groups:
            yield from _needs_of_group(f"{entry.domain}/{entry.name}", group)


def _needs_of_entry(entry: Entry) -> Iterator[Need]:
    name = f"{entry.domain}/{entry.name}"
    if kind := cdi_kind_of(entry):
        yield HostDirectory(str(CDI_DIRECTORY), f"the CDI spec of {kind}", writable=True)
    if any(group.release is not None for group in entry.groups):
        yield OneAtATime(f"{name} keeps track of who uses its devices")
        yield HostDirectory(_CGROUPS, f"{name} waits until no container of a pod runs")
        yield HostDirectory(_POD_RESOURCES, f"the kubelet's list of pods, for {name} to see who has which device")


def _needs_of_group(name: str, group: RuleGroup) -> Iterator[Need]:
    if group.health.opens:
        yield Privileged(f"health checks of {name} open device nodes of the host")
    if group.health.command is not None:
        yield Privileged(f"the health command of {name} may open device nodes of the host")
    if group.release is not None:
        yield Privileged(f"the release command of {name} acts on devices of the host")
    if any(each.startswith(_OF_UDEV) for selector in _selectors(group) for each in _names(selector)):
        yield HostDirectory("/run/udev", f"udev's properties of devices, by which {name} chooses")
    match group.what:
        case Paths(rules=rules):
            yield from _directories(name, [rule.pattern for rule in rules])
        case Interfaces():
            yield HostDirectory("/sys", "the host's network interfaces, which a pod's own /sys does not show")
    yield from _directories(name, [rule.host_path for rule in group.gifts.mounts])


def _selectors(group: RuleGroup) -> Iterator[Selector]:
    if isinstance(group.what, Match | Interfaces):
        yield group.what.selector
    if isinstance(group.what, Match | Usb):
        yield from (rule.selector for rule in group.what.nodes)


def _names(selector: Selector) -> Iterator[str]:
    """The names of the properties that a selector asks for."""
    match selector:
        case Where(name=name):
            yield name
        case AllOf(parts=parts) | AnyOf(parts=parts):
            for part in parts:
                yield from _names(part)
        case Not(part=part):
            yield from _names(part)
        case _:
            assert_never(selector)


def _directories(name: str, patterns: Sequence[str]) -> Iterator[HostDirectory]:
    for pattern in patterns:
        place = _above(pattern)
        if place == "/":
            raise NeedsRefused(
                f"{name} looks for {pattern}, and the host's root is too much to mount: name a directory"
            )
        if not any(f"{place}/".startswith(f"{seen}/") for seen in _SEEN_ANYWAY):
            yield HostDirectory(place, f"{name} looks whether {pattern} exists")


def _above(pattern: str) -> str:
    """The directory in which the first variable part of a pattern or template lies, or the file of one without."""
    parts = pattern.rstrip("/").split("/")
    fixed = next((at for at, part in enumerate(parts) if _SPECIAL.intersection(part)), len(parts) - 1)
    return "/".join(parts[:fixed]) or "/"
