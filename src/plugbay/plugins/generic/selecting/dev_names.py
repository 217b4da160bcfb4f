"""Groups of names below ``/dev``: each file that matches is a unit, and a directory with nodes is one, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from plugbay.model.edits import DeviceNode
from plugbay.plugins.generic.config.rules import DevNames
from plugbay.plugins.generic.machine.values import SysPath
from plugbay.plugins.generic.selecting.drafts import Draft, Drafts, Named
from plugbay.plugins.generic.selecting.paths import why_not_device
from plugbay.plugins.generic.selecting.ports import Hardware
from plugbay.plugins.generic.selecting.sight import HostSight
from plugbay.plugins.generic.selecting.texts import several
from plugbay.plugins.generic.selecting.tree import FileKind

_DEV: Final = "/dev"
_PERMISSIONS: Final = "rw"


class DevNameLook:
    """A group of names between looks."""

    def __init__(self, what: DevNames, sight: HostSight, hardware: Hardware) -> None:
        self._what = what
        self._sight = sight
        self._hardware = hardware
        self._made: dict[str, Draft] = {}
        self._devices: set[SysPath] = set()
        self._targets: set[str] = set()

    @property
    def directories(self) -> frozenset[str]:
        """``/dev``; those below it are in sight once they have been listed."""
        return frozenset({_DEV})

    def is_touched(self, paths: frozenset[str], devices: frozenset[SysPath]) -> bool:
        if not self._devices.isdisjoint(devices) or not paths.isdisjoint(self._targets):
            return True
        return any(f"{path}/".startswith(f"{_DEV}/") for path in paths)

    def look(self, paths: frozenset[str], devices: frozenset[SysPath]) -> Drafts:
        before, self._made = self._made, {}
        refused: dict[str, list[str]] = {}
        self._targets.clear()
        for path in filter(self._what.matches, self._sight.inside(_DEV)):
            reason = why_not_device(path, self._sight, takes_directories=True)
            if not reason or self._sight.kind(path) is FileKind.DANGLING:  # other targets do not become devices
                self._targets.add(target := self._sight.target(path))
            if reason:
                refused.setdefault(reason, []).append(path)
                continue
            draft, known = self._draft_of(path, target), before.get(path)
            is_stale = not paths.isdisjoint((path, target)) or any(each.path in devices for each in draft.devices)
            self._made[path] = draft if known is None or known != draft or is_stale else known
        self._devices = {device.path for draft in self._made.values() for device in draft.devices}
        return Drafts(tuple(self._made.values()), tuple(self._troubles(refused)))

    def _draft_of(self, path: str, target: str) -> Draft:
        device = self._hardware.by_node(target)
        return Draft(
            stands_for=(path,),
            named=Named.BY_PATHS,
            nodes=(DeviceNode(path, container_path=path, permissions=_PERMISSIONS),),
            devices=() if device is None else (device,),
            claims=tuple(dict.fromkeys((path, target))),
            facts={"path": path, "hostPath": path, "name": path.removeprefix(f"{_DEV}/")},
            physical=path if device is None else "",
        )

    def _troubles(self, refused: Mapping[str, Sequence[str]]) -> Iterator[str]:
        for reason, paths in refused.items():
            named = f"Each of {several(paths)}" if len(paths) > 1 else several(paths)
            yield f"{named} matches {self._what.expression.pattern!r} and {reason}, so it is not given."
