"""The host's files between looks: listings and kinds that are kept, and mended by what is said to have changed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, takewhile

from plugbay.cdi.nodes import NOT_LOOKED_INTO
from plugbay.plugins.generic.config.globs import Glob
from plugbay.plugins.generic.selecting.tree import FileKind, FileTree, nodes_inside


def above(path: str) -> str:
    """The directory in which a path is."""
    return path.rpartition("/")[0] or "/"


class HostSight:
    """The files of a host as they were last looked at; links are looked at anew each time."""

    def __init__(self, files: FileTree) -> None:
        self._files = files
        self._names: dict[str, list[str]] = {}
        self._kinds: dict[str, FileKind] = {}
        self._asked: set[str] = set()
        self._inside: dict[str, Sequence[str]] = {}

    @property
    def directories(self) -> frozenset[str]:
        """Those in which names may come and go that were asked for; those that are not there yet as well."""
        return frozenset(self._names).union(map(above, self._asked))

    def kind(self, path: str) -> FileKind:
        """The kind of file that a path leads to."""
        known = self._kinds.get(path)
        if known is not None:
            return known
        found = self._files.kind(path)
        if found is not FileKind.DANGLING and not self._files.is_link(path):
            self._kinds[path] = found
        return found

    def target(self, path: str) -> str:
        """The path to which links lead; the path itself if there is none."""
        if path in self._kinds:
            return path
        found = self._files.target(path)
        if found != path:
            self._asked.add(found)
        return found

    def matches(self, glob: Glob) -> list[str]:
        """The paths that match, sorted by their bytes.

        A pattern also finds links to nothing; a path without one does not.
        """
        if glob.is_literal:
            self._asked.add(glob.base)
            is_there = self.kind(glob.base) not in (FileKind.MISSING, FileKind.DANGLING)
            return [glob.base] if is_there else []
        found = [glob.base.rstrip("/")]
        for segment in glob.segments:
            if segment.regex is None:
                found = [f"{place}/{segment.prefix}" for place in found if self._has(place or "/", segment.prefix)]
            else:
                matches = segment.regex.fullmatch
                found = [
                    f"{place}/{name}"
                    for place in found
                    for name in self._listed(place or "/", segment.prefix)
                    if matches(name)
                ]
        return sorted(found, key=_bytes_of)

    def inside(self, directory: str) -> Sequence[str]:
        """The paths in a directory, and at every depth below it but behind links and in what engines pass over."""
        if directory not in self._inside:
            self._inside[directory] = tuple(self._walk(directory))
        return self._inside[directory]

    def _walk(self, directory: str) -> Iterator[str]:
        for name in self._names_in(directory):
            path = f"{directory.rstrip('/')}/{name}"
            yield path
            if name not in NOT_LOOKED_INTO and self.kind(path) is FileKind.DIRECTORY and not self._files.is_link(path):
                yield from self._walk(path)

    def has_node_inside(self, directory: str) -> bool:
        """Whether engines find a device node in a directory that is given as a device."""
        return any(nodes_inside(self._files, directory))

    def mend(self, paths: Iterable[str], directories: Iterable[str]) -> frozenset[str]:
        """Forget what has changed; all the paths that may have, among them what is found anew in ``directories``."""
        changed = set(paths)
        for directory in directories:
            changed |= self._changed_in(directory)
        for path in changed:
            self._mend(path)
        if changed:
            self._inside.clear()
        return frozenset(changed)

    def _changed_in(self, directory: str) -> set[str]:
        known = self._names.get(directory)
        inside = directory.rstrip("/") + "/"
        if known is not None:
            return {inside + name for name in set(self._files.names(directory)).symmetric_difference(known)}
        # A directory that no pattern made us list: what was asked for in it or below it may have come or gone.
        asked = {path for path in self._asked if path == directory or path.startswith(inside)}
        return asked | {each for each in self._names if each.startswith(inside)}

    def _mend(self, path: str) -> None:
        self._kinds.pop(path, None)
        name = path.rpartition("/")[2]
        known = self._names.get(above(path))
        if known is not None:
            at = bisect_left(known, name)
            is_listed = at < len(known) and known[at] == name
            is_there = self._files.kind(path) is not FileKind.MISSING
            if is_there and not is_listed:
                known.insert(at, name)
            elif is_listed and not is_there:
                del known[at]
        below = path.rstrip("/") + "/"
        for each in [each for each in self._names if each == path or each.startswith(below)]:
            del self._names[each]

    def _names_in(self, directory: str) -> list[str]:
        known = self._names.get(directory)
        if known is None:
            known = self._names[directory] = sorted(self._files.names(directory))
        return known

    def _listed(self, directory: str, prefix: str) -> Iterable[str]:
        known = self._names_in(directory)
        if not prefix:
            return known
        return takewhile(lambda name: name.startswith(prefix), islice(known, bisect_left(known, prefix), None))

    def _has(self, directory: str, name: str) -> bool:
        known = self._names_in(directory)
        at = bisect_left(known, name)
        return at < len(known) and known[at] == name


def _bytes_of(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
