"""From squat's generic-device-plugin: its DaemonSets, flags and config files. Pure.

Its entries become those of a config of our generic plugin, which reads them as they are; USB IDs are written so that
no reader can take them for other numbers.

Source: squat/generic-device-plugin 0.1 and 0.2, its README and ``deviceplugin/``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from plugbay.documents.texts import read_documents, to_yaml
from plugbay.errors import UsageError
from plugbay.model.dns import is_subdomain
from plugbay.model.field_path import FieldPath
from plugbay.sdk.deploying.deployment import FILES
from plugbay.sdk.deploying.migrating import workloads
from plugbay.sdk.deploying.migrating.settings import ForeignSettings, Migration, MigrationNote, NoteKind, in_order
from plugbay.sdk.deploying.migrating.squat_configs import SquatConfigs, is_config
from plugbay.sdk.deploying.migrating.squat_devices import CONFIG, USB_BUNDLES, key_of, read_device
from plugbay.sdk.deploying.migrating.volumes import note_kubelets_directory

ORIGIN: Final = "squat"
TARGET: Final = "generic"
"""The target of ``plugbay serve`` that serves the entries."""
_PROGRAM: Final = "generic-device-plugin"
_DOMAIN: Final = "devic.es"
_OLD_DOMAIN: Final = "squat.ai"
_DIRECTORY: Final = "/var/lib/kubelet/device-plugins"
_FLAGS: Final = ("device", "domain", "plugin-directory", "listen", "log-level", "config")
_OTHERS: Final = {
    "listen": "metrics and probes are at :9400, and their metrics have other names",
    "log-level": "the log has plugbay's levels; see --log-level",
}
_SHARED_PATHS: Final = "sharedPaths"
_VERSION: Final = "VERSION"
_VARIABLES: Final = ("DOMAIN", "PLUGIN_DIRECTORY", "LISTEN", "LOG_LEVEL")
_UNKNOWN: Final = "not a setting of squat's plugin, which ignores it as well, or not in a form that is known here"
_GIVE_FILE: Final = "give that file as well, or the ConfigMap that holds it"
_NO_PLACE: Final = "a manifest of ours has no such setting"


def is_squat(settings: ForeignSettings) -> bool:
    """Whether a document is for squat's plugin: a workload with its image, or its config file."""
    if workloads.kind_of(settings) in workloads.WORKLOADS:
        return any(_containers(settings))
    return is_config(settings)


def _containers(workload: ForeignSettings) -> Iterator[FieldPath]:
    return (each for each in workloads.containers_of(workload) if _is_its(workload, each))


def _is_its(settings: ForeignSettings, container: FieldPath) -> bool:
    words = [word for word, _ in workloads.read_words(settings, container)]
    return _PROGRAM in workloads.image_of(settings, container) or any(_PROGRAM in word for word in words[:1])


def migrate_squat(documents: Sequence[ForeignSettings], words: Sequence[str], domain: str) -> Migration:
    """Read its files and flags.

    Args:
        documents: of all files.
        words: flags, as on a command line.
        domain: of the resources, if nothing else names one.

    Raises:
        UsageError: nothing of it can be served, or it is for several workloads.
        InvalidDocument: the text of a ``--device``, or of a config file, is broken.
    """
    return _SquatReader(documents, domain).migration(words)


class _SquatReader:
    def __init__(self, documents: Sequence[ForeignSettings], domain: str) -> None:
        self._documents = documents
        self._fallback = domain
        self._domain = ""
        self._entries: list[dict[str, Any]] = []
        self._of_flags: list[dict[str, Any]] = []
        self._inner: list[ForeignSettings] = []
        self._configs = SquatConfigs((), None, ())
        self._config_path = ""
        self._config: ForeignSettings | None = None
        self._flag_notes: list[MigrationNote] = []
        self._pod: dict[str, Any] = {}

    def migration(self, words: Sequence[str]) -> Migration:
        found = [each for each in self._documents if workloads.kind_of(each) in workloads.WORKLOADS and is_squat(each)]
        if len(found) > 1:
            raise UsageError(f"{found[1].place(())}: a second workload of squat's plugin; migrate each by itself")
        workload = found[0] if found else None
        container = () if workload is None else next(_containers(workload))
        self._configs = SquatConfigs(self._documents, workload, container)
        if workload is not None:
            self._read_workload(workload)
        self._read_flags([(word, f"flag {word.partition('=')[0]}", None) for word in words], self._flag_notes)
        config = self._config if self._config_path else self._configs.unnamed()
        if config is not None:
            self._read_config(config)
        self._configs.note_unread(config)
        for each in self._documents:
            if each is workload:
                each.note_rest(_NO_PLACE)
            elif workloads.kind_of(each):
                workloads.note_other_object(each)
            else:
                each.note_rest("it is neither a config file of squat's plugin nor an object of Kubernetes")
        return self._result()

    def _result(self) -> Migration:
        entries = self._of_flags or self._entries
        compat = list(_compat(entries))
        domain = self._domain or self._fallback or _DOMAIN
        if not entries and self._config_path and self._config is None:
            raise UsageError(f"--config={self._config_path}: {_GIVE_FILE}")
        notes = [*self._flag_notes, *in_order((*self._documents, *self._configs.inner, *self._inner))]
        if not (self._domain or self._fallback) and entries:
            text = f"{_DOMAIN}, as from 0.2.0 on; up to 0.1 it was {_OLD_DOMAIN}: give --domain if pods ask for that"
            notes.insert(0, MigrationNote(NoteKind.LEFT, "nowhere", "domain", text))
        content = {"domain": domain, **({"compat": compat} if compat else {}), "devices": entries}
        files = {CONFIG: to_yaml(content)} if entries else {}
        return Migration(
            origin=ORIGIN,
            words=(TARGET, f"--config={FILES}/{CONFIG}"),
            files=files,
            pod=self._pod,
            notes=tuple(notes),
        )

    # --- a workload and its flags -----------------------------------------------------------------------------------

    def _read_workload(self, settings: ForeignSettings) -> None:
        self._pod = workloads.read_workload(settings)
        note_kubelets_directory(settings)
        for container in workloads.containers_of(settings):
            if not _is_its(settings, container):
                settings.note(NoteKind.LEFT, container, "it is not squat's plugin")
                continue
            workloads.note_container(settings, container)
            words = workloads.read_words(settings, container)
            own = next((at for at, (word, _) in enumerate(words) if word.startswith("-")), len(words))
            for _, path in words[:own]:
                settings.note(NoteKind.OTHERWISE, path, "plugbay serve")
            notes: list[MigrationNote] = []
            self._read_flags([(word, settings.place(path), (settings, path)) for word, path in words[own:]], notes)
            for at in settings.items(*container, "env"):
                self._read_variable(settings, (*container, "env", at), notes)

    def _read_variable(self, settings: ForeignSettings, at: FieldPath, notes: list[MigrationNote]) -> None:
        name, value = (settings.at(*at, key) for key in ("name", "value"))
        if name not in (*_VARIABLES, _VERSION):
            settings.note(NoteKind.LEFT, at, f"squat's plugin has no variable {name}")
        elif not isinstance(value, str):
            settings.note(NoteKind.LEFT, at, f"the value of {name} is not known here")
        elif name == "DOMAIN" and self._domain:
            settings.note(NoteKind.OTHERWISE, at, f"of no effect: --domain={self._domain} counts")
        elif name == _VERSION:
            settings.note(NoteKind.OTHERWISE, at, "`plugbay version` tells ours")
        else:
            flag = str(name).lower().replace("_", "-")
            self._read_flags([(f"--{flag}={value}", settings.place(at), (settings, at))], notes)

    def _read_flags(
        self,
        words: Sequence[tuple[str, str, tuple[ForeignSettings, FieldPath] | None]],
        notes: list[MigrationNote],
    ) -> None:
        """Read flags, each with its place and, if it lies in a file, the setting that it is."""
        following = iter(words)
        for word, begin, setting in following:
            place = begin
            name, equals, value = word.partition("=")
            places = [setting]
            if not equals and name.lstrip("-") in _FLAGS:
                value, at, further = next(following, ("", begin, None))
                place = at if further is not None else begin
                places.append(further)
            kind, text = self._read_flag(f"--{name.lstrip('-')}", value, place)
            for each in places:
                if each is not None:
                    each[0].note(kind, each[1], text)
            if setting is None:
                notes.append(MigrationNote(kind, place, word if len(word) < 60 else name, text))

    def _read_flag(self, name: str, value: str, place: str) -> tuple[NoteKind, str]:
        source, _, line = place.rpartition(":")
        match name:
            case "--device":
                for document in read_documents(value, source=place):
                    settings = ForeignSettings(document, source or place, line=int(line) if line.isdigit() else 1)
                    self._inner.append(settings)
                    self._of_flags += read_device(settings, (), self._names(), is_flag=True)
                    settings.note_rest(_UNKNOWN)
                return NoteKind.TAKEN, "as below"
            case "--domain":
                return self._take_domain(value)
            case "--plugin-directory":
                return _directory(value)
            case "--config":
                self._config_path, self._config = value, self._configs.named(value)
                if self._config is None:
                    return NoteKind.LEFT, _GIVE_FILE
                return NoteKind.OTHERWISE, f"its content goes into {CONFIG}"
            case "--version" | "--help":
                return NoteKind.OTHERWISE, "with it squat's plugin serves nothing; see `plugbay version`"
            case _ if name.removeprefix("--") in _OTHERS:
                return NoteKind.OTHERWISE, _OTHERS[name.removeprefix("--")]
        return NoteKind.LEFT, "squat's plugin has no such flag"

    def _take_domain(self, value: str) -> tuple[NoteKind, str]:
        if not is_subdomain(value):
            return NoteKind.LEFT, "it is not a domain"
        self._domain = value
        return NoteKind.TAKEN, "part of the resources' names"

    def _names(self) -> list[str]:
        return [each["name"] for each in (*self._entries, *self._of_flags)]

    # --- a config file ----------------------------------------------------------------------------------------------

    def _read_config(self, settings: ForeignSettings) -> None:
        for name in ("devices", "device"):
            if key := key_of(settings, name):
                for at in settings.items(key):
                    if self._of_flags:
                        settings.note(
                            NoteKind.OTHERWISE, (key, at), "--device takes the place of all devices of a file"
                        )
                    else:
                        self._entries += read_device(settings, (key, at), self._names())
        if key := key_of(settings, "domain"):
            if self._domain:
                settings.note(NoteKind.OTHERWISE, (key,), f"{self._domain}, as a flag or variable says")
            else:
                settings.note(*_at((key,), self._take_domain(str(settings.at(key)))))
        if key := key_of(settings, "plugin-directory"):
            settings.note(*_at((key,), _directory(str(settings.at(key)))))
        for name, text in _OTHERS.items():
            if key := key_of(settings, name):
                settings.note(NoteKind.OTHERWISE, (key,), text)
        settings.note_rest(_UNKNOWN)


def _compat(entries: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The old behaviour that the entries go by, as a config of ours calls it."""
    if len(entries) > 1:
        yield _SHARED_PATHS  # patterns and links tell only on a node which files they have in common
    if any("usb" in group for entry in entries for group in entry["groups"]):
        yield USB_BUNDLES


def _at(path: FieldPath, outcome: tuple[NoteKind, str]) -> tuple[NoteKind, FieldPath, str]:
    return outcome[0], path, outcome[1]


def _directory(value: str) -> tuple[NoteKind, str]:
    if value.rstrip("/") == _DIRECTORY:
        return NoteKind.TAKEN, "the kubelet's own"
    return NoteKind.LEFT, f"the manifest is for a kubelet with {_DIRECTORY}"
