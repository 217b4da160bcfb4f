"""The rights that the plugin needs on a node, by its rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeGuard, assert_never

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
from plugbay.sdk.deploying.container_places import hides_own, mounted_for

_ROOT: Final = Path("/")
_ELSEWHERE: Final = Path("/host")
_SPECIAL: Final = frozenset("*?[\\{")
_DEV: Final = "/dev"
_SYS: Final = "/sys"
_UDEV: Final = "/run/udev"
_OF_UDEV: Final = "property:"
_CGROUPS: Final = "/sys/fs/cgroup"
_POD_RESOURCES: Final = "/var/lib/kubelet/pod-resources"
_NODES: Final = HostDirectory(_DEV, "the device nodes of the host")
_NOT_OF_MACHINE: Final = (_CGROUPS, _POD_RESOURCES, str(CDI_DIRECTORY))
"""Directories that the SDK looks at, wherever the machine's files are."""


def generic_needs(config: GenericConfig, root: Path = _ROOT) -> Sequence[Need]:
    """The needs of a process with the rules of ``config``; reading device nodes and sysfs takes no capability.

    Args:
        root: the place of the machine's files in the container.

    Raises:
        NeedsRefused: a path lies right below the host's root, or at a place that the container cannot spare.
    """
    needs = tuple(dict.fromkeys(_placed(each, root) for each in _needs(config, root)))
    if root == _ROOT and (hiding := next(filter(_hides_own, needs), None)) is not None:
        raise NeedsRefused(
            f"{hiding.reason}, and with {hiding.path} of the host the container would not see its own: have the "
            f"machine's files elsewhere, by --machine-root={_ELSEWHERE} or the setting machine-root: {_ELSEWHERE}"
        )
    return needs


def root_in_pod(config: GenericConfig) -> Path:
    """The place for the machine's files in a pod: where they are on the machine, unless that would hide the pod's own.

    Raises:
        NeedsRefused: a path lies right below the host's root.
    """
    return _ELSEWHERE if any(map(_hides_own, _needs(config, _ROOT))) else _ROOT


def _hides_own(need: Need) -> TypeGuard[HostDirectory]:
    return isinstance(need, HostDirectory) and hides_own(need.place)


def _placed(need: Need, root: Path) -> Need:
    """A directory that is looked at below the root; others stay where they are."""
    if not isinstance(need, HostDirectory) or need.path in _NOT_OF_MACHINE or need.container_path:
        return need
    return replace(need, container_path=f"{str(root).rstrip('/')}{need.path}" if root != _ROOT else "")


def _needs(config: GenericConfig, root: Path) -> Iterator[Need]:
    groups = [group for entry in config.entries for group in entry.groups]
    if any(not isinstance(group.what, Tokens) for group in groups):
        yield _NODES
        if root != _ROOT:
            yield HostDirectory(_SYS, "the devices of the host")
    if root != _ROOT and any(group.health.command or group.release for group in groups):
        yield HostDirectory(_DEV, "the device nodes of the host, for commands", container_path=_DEV)
    for entry in config.entries:
        yield from _needs_of_entry(entry)
        for group in entry.groups:
            yield from _needs_of_group(f"{entry.domain}/{entry.name}", group, root)


def _needs_of_entry(entry: Entry) -> Iterator[Need]:
    name = f"{entry.domain}/{entry.name}"
    if kind := cdi_kind_of(entry):
        yield HostDirectory(str(CDI_DIRECTORY), f"the CDI spec of {kind}", writable=True)
    if any(group.release is not None for group in entry.groups):
        yield OneAtATime(f"{name} keeps track of who uses its devices")
        yield HostDirectory(_CGROUPS, f"{name} waits until no container of a pod runs")
        yield HostDirectory(_POD_RESOURCES, f"the kubelet's list of pods, for {name} to see who has which device")


def _needs_of_group(name: str, group: RuleGroup, root: Path) -> Iterator[Need]:
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
            yield from _directories(name, [rule.pattern for rule in rules], root)
        case Interfaces():
            yield HostDirectory(_SYS, "the host's network interfaces, which a pod's own /sys does not show")
    yield from _directories(name, [rule.host_path for rule in group.gifts.mounts], root)


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


def _directories(name: str, patterns: Sequence[str], root: Path) -> Iterator[HostDirectory]:
    for pattern in patterns:
        seen = mounted_for(pattern)
        if seen == _DEV:
            yield _NODES
        elif seen or root != _ROOT:  # below another root a container has nothing of its own
            place = _above(pattern) if seen in ("", pattern) else seen
            if place == "/":
                raise NeedsRefused(
                    f"{name} looks for {pattern}, and the host's root is too much to mount: name a directory"
                )
            yield HostDirectory(place, f"{name} looks whether {pattern} exists")


def _above(pattern: str) -> str:
    """The directory in which the first variable part of a pattern or template lies, or the file of one without."""
    parts = pattern.rstrip("/").split("/")
    fixed = next((at for at, part in enumerate(parts) if _SPECIAL.intersection(part)), len(parts) - 1)
    return "/".join(parts[:fixed]) or "/"
