"""Groups of paths: what their patterns match now, and the drafts made of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from plugbay.model.edits import DeviceNode, Mount
from plugbay.plugins.generic.config.globs import Glob, GlobProblem, parse_glob
from plugbay.plugins.generic.config.rules import PathKind, PathRule, Paths
from plugbay.plugins.generic.machine.values import SysDevice, SysPath
from plugbay.plugins.generic.selecting.drafts import Draft, Drafts, Named
from plugbay.plugins.generic.selecting.ports import Hardware
from plugbay.plugins.generic.selecting.sets import PathSet, container_path, sets_of
from plugbay.plugins.generic.selecting.sight import HostSight, above
from plugbay.plugins.generic.selecting.texts import several
from plugbay.plugins.generic.selecting.tree import FileKind
from plugbay.values import dataclass

_BAD_NAME: Final = "has a name that is not UTF-8, or that holds control characters"
"""The reason for which a file cannot be given at all."""


@dataclass(frozen=True, slots=True)
class Matched:
    """The matches of a rule.

    Attributes:
        paths: those that may be given, in order.
        refused: the others, each with the reason.
    """

    paths: tuple[str, ...]
    refused: tuple[tuple[str, str], ...] = ()


def matched(rule: PathRule, glob: Glob, sight: HostSight) -> Matched:
    """The files that a rule matches now, without those that a container could not get as its kind says."""
    paths, refused = [], []
    for path in sight.matches(glob):
        reason = _why_refused(rule, glob, path, sight)
        if reason:
            refused.append((path, reason))
        else:
            paths.append(path)
    return Matched(tuple(paths), tuple(refused))


def _why_refused(rule: PathRule, glob: Glob, path: str, sight: HostSight) -> str:
    if rule.kind is PathKind.DEVICE and not rule.takes_any_file:
        return why_not_device(path, sight, takes_directories=glob.is_literal)
    if not path.isprintable():
        return _BAD_NAME
    kind = sight.kind(path)
    is_refused = kind in (FileKind.DANGLING, FileKind.MISSING) and not rule.takes_any_file
    return f"is {kind.value}" if is_refused else ""


def why_not_device(path: str, sight: HostSight, *, takes_directories: bool) -> str:
    """The reason for which a file cannot be a device, as the end of a sentence; empty for one that can.

    Args:
        takes_directories: whether a directory counts for the nodes in it, which engines give: configs of other plugins
            rely on that for ``/dev/snd``.
    """
    if not path.isprintable():
        return _BAD_NAME
    kind = sight.kind(path)
    if kind.is_node or (kind is FileKind.DIRECTORY and takes_directories and sight.has_node_inside(path)):
        return ""
    return f"is {kind.value}"


class PathLook:
    """A group of paths between looks."""

    def __init__(self, what: Paths, sight: HostSight, hardware: Hardware) -> None:
        self._sight = sight
        self._hardware = hardware
        parsed = [(rule, parse_glob(rule.pattern)) for rule in what.rules]
        self._rules = [(rule, glob) for rule, glob in parsed if isinstance(glob, Glob)]
        self._broken = tuple(
            f"The path {rule.pattern!r} is not a pattern: {glob.text}. Its group has no devices until that is mended."
            for rule, glob in parsed
            if isinstance(glob, GlobProblem)
        )
        self._made: dict[tuple[str, ...], Draft] = {}
        self._targets: dict[str, str] = {}
        self._devices: set[SysPath] = set()

    @property
    def directories(self) -> frozenset[str]:
        """Where names may come and go that this group would see; those that are not there yet as well."""
        return frozenset(glob.base if self._is_inside(glob) else above(glob.base) for _, glob in self._rules)

    def is_touched(self, paths: frozenset[str], devices: frozenset[SysPath]) -> bool:
        """Whether these changes may be seen by this group."""
        if not self._devices.isdisjoint(devices) or not paths.isdisjoint(self._targets.values()):
            return True
        return any(
            glob.is_touched_by(path) or (glob.is_literal and above(path) == glob.base and self._is_inside(glob))
            for path in paths
            for _, glob in self._rules
        )

    def look(self, paths: frozenset[str], devices: frozenset[SysPath]) -> Drafts:
        """The drafts now; those that these changes do not concern are those of the last look."""
        if self._broken:
            return Drafts(troubles=self._broken)
        found = [(rule, matched(rule, glob, self._sight)) for rule, glob in self._rules]
        before, targets = self._made, self._targets
        self._made, self._targets = {}, {}
        for each in sets_of([(rule, matches.paths) for rule, matches in found]):
            key = tuple([path for _, path in each])
            known = before.get(key)
            is_stale = (
                known is None
                or not paths.isdisjoint(key)
                or any(targets.get(path) in paths for path in key)
                or any(device.path in devices for device in known.devices)
            )
            for path in key:
                target = self._sight.target(path) if is_stale else targets.get(path, path)
                if target != path:
                    self._targets[path] = target
            self._made[key] = self._draft_of(each, key) if known is None or is_stale else known
        for path in self._loose(found):
            self._targets[path] = self._sight.target(path)
        self._devices = {device.path for draft in self._made.values() for device in draft.devices}
        return Drafts(tuple(self._made.values()), tuple(_troubles_of(found)))

    def _is_inside(self, glob: Glob) -> bool:
        """Whether it matters what is right in the base: for patterns, and for a directory given as a device."""
        return not glob.is_literal or self._sight.kind(glob.base) is FileKind.DIRECTORY

    def _loose(self, found: Iterable[tuple[PathRule, Matched]]) -> Iterable[str]:
        """The paths that are links to nothing, to which something may come."""
        for _, matches in found:
            for path, _ in matches.refused:
                if self._sight.kind(path) is FileKind.DANGLING:
                    yield path
        for _, glob in self._rules:
            if glob.is_literal and self._sight.kind(glob.base) is FileKind.DANGLING:
                yield glob.base

    def _draft_of(self, pairs: PathSet, key: tuple[str, ...]) -> Draft:
        nodes: list[DeviceNode] = []
        mounts: list[Mount] = []
        devices: dict[SysPath, SysDevice] = {}
        claims: list[str] = []
        for rule, path in pairs:
            target = self._targets.get(path, path)
            place = container_path(rule.mount_path, path)
            for host, inside in ((path, place), (target, target)) if rule.resolves else ((path, place),):
                if rule.kind is PathKind.DEVICE:
                    nodes.append(DeviceNode(host, container_path=inside, permissions=rule.permissions))
                else:
                    mounts.append(Mount(host, container_path=inside, read_only=rule.is_read_only))
            if rule.kind is PathKind.DEVICE:
                claims += (path, target)
            device = self._hardware.by_node(target)
            if device is not None:
                devices.setdefault(device.path, device)
        place = nodes[0].container_path if nodes else mounts[0].container_path
        return Draft(
            stands_for=key,
            named=Named.BY_PATHS,
            nodes=tuple(dict.fromkeys(nodes)),
            mounts=tuple(dict.fromkeys(mounts)),
            devices=tuple(devices.values()),
            claims=tuple(dict.fromkeys(claims)),
            facts={"path": place, "hostPath": key[0], "name": key[0].rpartition("/")[2]},
            physical="" if devices else "+".join(key),
        )


def _troubles_of(found: Iterable[tuple[PathRule, Matched]]) -> Iterable[str]:
    for rule, matches in found:
        by_reason: dict[str, list[str]] = {}
        for path, reason in matches.refused:
            by_reason.setdefault(reason, []).append(path)
        for reason, paths in by_reason.items():
            named = f"Each of {several(paths)}" if len(paths) > 1 else several(paths)
            instead = "" if reason == _BAD_NAME else ", or anyFile: true to give it all the same"
            yield (
                f"{named} matches {rule.pattern!r} and {reason}, so it is not given; write a narrower pattern{instead}."
            )
