"""The config file that squat's plugin reads, among all that are given. Pure.

Source: squat/generic-device-plugin 0.2 ``main.go``: ``--config``, or else ``config`` with any ending in its own
directory, or where it runs; one file, and of YAML its first document.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from typing import Final

from plugbay.documents.texts import Document, read_documents
from plugbay.errors import InvalidDocument, UsageError
from plugbay.model.field_path import FieldPath
from plugbay.sdk.deploying.migrating import workloads
from plugbay.sdk.deploying.migrating.settings import ForeignSettings, NoteKind
from plugbay.sdk.deploying.migrating.squat_devices import key_of
from plugbay.sdk.deploying.migrating.volumes import ConfigMapFile, config_map_volumes, mounted_files

_SEARCHED: Final = "/etc/generic-device-plugin"
_NAME: Final = "config"
_READ: Final = (".yaml", ".yml", ".json")
_UNREAD: Final = "the plugin does not read this file"


def is_config(settings: ForeignSettings) -> bool:
    """Whether a document is a config file by itself."""
    return any(key_of(settings, name) for name in ("devices", "device")) and not settings.at("kind")


class SquatConfigs:
    """The config files that are given, of which the plugin reads one.

    Args:
        documents: of all files.
        workload: the plugin's; None if it is not given.
        container: its container there.

    Attributes:
        inner: the documents of the file in a ConfigMap that was read.
    """

    def __init__(
        self, documents: Sequence[ForeignSettings], workload: ForeignSettings | None, container: FieldPath
    ) -> None:
        self.inner: list[ForeignSettings] = []
        self._bare = [each for each in documents if not workloads.kind_of(each) and is_config(each)]
        self._is_mounted = workload is not None
        self._directory = "/"
        if workload is None:
            self._files = dict(_configs_in_maps(documents))
        else:
            self._files = mounted_files(workload, container, config_map_volumes(workload, documents))
            self._directory = str(workload.at(*container, "workingDir") or "/")

    def named(self, path: str) -> ForeignSettings | None:
        """Read the file that ``--config`` names; None if it is not given.

        Raises:
            UsageError: it is in a format that is not read here.
            InvalidDocument: it is broken.
        """
        place, name = posixpath.normpath(posixpath.join(self._directory, path)), posixpath.basename(path)
        if self._is_mounted and place in self._files:
            return self._read(place)
        if not self._is_mounted and (places := [each for each in self._files if posixpath.basename(each) == name]):
            return self._read(places[0])
        named = [each for each in self._bare if posixpath.basename(each.source) == name]
        return next(iter(named or (self._bare if len(self._bare) == 1 else ())), None)

    def unnamed(self) -> ForeignSettings | None:
        """Read the file that counts without ``--config``; None if there is none.

        Raises:
            UsageError: it does not show which one counts.
            InvalidDocument: it is broken.
        """
        places = list(self._files)
        if self._is_mounted:
            searched = (_SEARCHED, posixpath.normpath(self._directory))
            places = [each for above in searched for each in places if _is_found_in(above, each)][:1]
        if len(places) + len(self._bare) > 1 and not (self._is_mounted and places):
            second = self._bare[1].place(()) if len(self._bare) > 1 else places[-1]
            raise UsageError(
                f"{second}: a second config file, and squat's plugin reads one; name it by `-- --config=FILE`"
            )
        return self._read(places[0]) if places else next(iter(self._bare), None)

    def note_unread(self, read: ForeignSettings | None) -> None:
        """Tell of config files that do not count."""
        for each in self._bare:
            if each is not read:
                each.note(NoteKind.LEFT, (), _UNREAD)
        for file in self._files.values():
            for field in ("apiVersion", "kind", "metadata"):
                file.config_map.note(NoteKind.OTHERWISE, (field,), "it has the name of the DaemonSet")
            file.config_map.note(NoteKind.LEFT, ("data", file.key), _UNREAD)

    def _read(self, place: str) -> ForeignSettings:
        file = self._files[place]
        if not place.endswith(_READ):
            raise UsageError(
                f"{file.config_map.source}: {file.key}: only YAML and JSON are read; write it in one of them"
            )
        source = f"{file.config_map.source}: {file.key}"
        documents = list(read_documents(file.text, source=source)) or [Document({}, {})]
        self.inner = [ForeignSettings(each, source) for each in documents]
        for each in self.inner[1:]:
            each.note(NoteKind.LEFT, (), "squat's plugin reads only the first document of a file")
        file.config_map.note(NoteKind.TAKEN, ("data", file.key), "as below")
        return self.inner[0]


def _is_found_in(directory: str, path: str) -> bool:
    above, name = posixpath.split(path)
    return above == directory and posixpath.splitext(name)[0] == _NAME


def _configs_in_maps(documents: Sequence[ForeignSettings]) -> Iterator[tuple[str, ConfigMapFile]]:
    """The config files in ConfigMaps, whatever mounts them, each with a path of its own."""
    for number, settings in enumerate(documents):
        if workloads.kind_of(settings) != "ConfigMap":
            continue
        for key in settings.keys("data"):
            text = settings.at("data", key)
            if isinstance(text, str) and _is_config_text(text):
                yield f"{number}/{key}", ConfigMapFile(settings, key)


def _is_config_text(text: str) -> bool:
    try:
        return any(is_config(ForeignSettings(each, "")) for each in read_documents(text, source=""))
    except InvalidDocument:
        return False
