"""The meaning of each device name, from all spec files together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from plugbay.cdi.names import QualifiedName, parse_kind
from plugbay.cdi.spec import NO_EDITS, Edits, Spec, SpecDevice
from plugbay.errors import InvalidCdiSpec, UnresolvableCdiDevices
from plugbay.values import dataclass


@dataclass(frozen=True, slots=True)
class SpecFile:
    """A good spec file.

    Attributes:
        priority: place of its directory in the list of directories; the highest wins.
    """

    path: str
    priority: int
    spec: Spec


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """A device and the file that defines it."""

    file: SpecFile
    device: SpecDevice


@dataclass(frozen=True, slots=True)
class Registry:
    """The result of a scan.

    Attributes:
        devices: the devices that can be injected.
        problems: problems of bad files, and of good files that disagree, by path. They never affect other files.
        directories: where it looked, for messages.
    """

    devices: Mapping[QualifiedName, RegistryEntry]
    problems: Mapping[str, Sequence[InvalidCdiSpec]]
    directories: Sequence[str] = ()

    def edits(self, names: Sequence[QualifiedName]) -> Edits:
        """The edits of a container with ``names``: for each name the edits of its file, once per file, then its own.

        Raises:
            UnresolvableCdiDevices: some are not there.
        """
        if missing := [str(name) for name in names if name not in self.devices]:
            raise UnresolvableCdiDevices(missing, self.directories)
        edits = NO_EDITS
        seen: set[str] = set()
        for name in names:
            entry = self.devices[name]
            if entry.file.path not in seen:
                seen.add(entry.file.path)
                edits += entry.file.spec.edits
            edits += entry.device.edits
        return edits


def registry_of(
    files: Iterable[SpecFile], bad: Iterable[InvalidCdiSpec] = (), *, directories: Sequence[str] = ()
) -> Registry:
    """One registry of ``files``, which come in the order of the scan: by directory, there by name.

    A name in a higher directory replaces one in a lower. A name twice in directories of one priority is of no use at
    all, not even where a higher directory has it too: the engines find that out last.

    Source: CDI 1.1.0 ``pkg/cdi/cache.go``, ``refresh``.
    """
    devices: dict[QualifiedName, RegistryEntry] = {}
    conflicting: set[QualifiedName] = set()
    problems: dict[str, list[InvalidCdiSpec]] = {}
    for error in bad:
        problems.setdefault(error.source, []).append(error)
    for file in files:
        kind = parse_kind(file.spec.kind)
        for device in file.spec.devices:
            name = QualifiedName(kind, device.name)
            before = devices.get(name)
            if before is not None and before.file.priority == file.priority:
                conflicting.add(name)
                problem = f'conflicting device "{name}" (specs "{file.path}", "{before.file.path}")'
                for path in (file.path, before.file.path):
                    problems.setdefault(path, []).append(InvalidCdiSpec(path, problem))
                continue
            if before is None or before.file.priority < file.priority:
                devices[name] = RegistryEntry(file, device)
    usable = {name: entry for name, entry in devices.items() if name not in conflicting}
    return Registry(usable, problems, directories)
