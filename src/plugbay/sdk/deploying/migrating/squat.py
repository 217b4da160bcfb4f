"""From squat's generic-device-plugin: its DaemonSets, flags and config files. Pure.

Its entries become those of a config of our generic plugin, which reads them as they are; USB IDs are written so that
no reader can take them for other numbers.

Source: squat/generic-device-plugin 0.1 and 0.2, its README and ``deviceplugin/``.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from plugbay.documents.texts import read_documents, to_yaml
from plugbay.errors import InvalidDocument, UsageError
from plugbay.model.dns import MAX_LABEL, is_subdomain
from plugbay.model.field_path import FieldPath
from plugbay.sdk.deploying.deployment import FILES
from plugbay.sdk.deploying.migrating import workloads
from plugbay.sdk.deploying.migrating.settings import ForeignSettings, Migration, MigrationNote, NoteKind, in_order

ORIGIN: Final = "squat"
TARGET: Final = "generic"
"""The target of ``plugbay serve`` that serves the entries."""
CONFIG: Final = "devices.yaml"
_PROGRAM: Final = "generic-device-plugin"
_DOMAIN: Final = "devic.es"
_OLD_DOMAIN: Final = "squat.ai"
_DIRECTORY: Final = "/var/lib/kubelet/device-plugins"
_NAME: Final = re.compile(r"[a-z0-9][-a-z0-9]*[a-z0-9]")
_PATH_FIELDS: Final = ("path", "mountPath", "type", "permissions", "readOnly", "limit", "optional")
_USB_IDS: Final = ("vendor", "product")
_USB_ID: Final = re.compile("[0-9a-fA-F]{1,4}")
_MOST_USB_ID: Final = 0xFFFF
_FLAGS: Final = ("device", "domain", "plugin-directory", "listen", "log-level", "config")
_TYPES: Final = ("Device", "Mount")
_OTHERS: Final = {
    "listen": "metrics and probes are at :9400, and their metrics have other names",
    "log-level": "the log has plugbay's levels; see --log-level",
}
_VARIABLES: Final = ("DOMAIN", "PLUGIN_DIRECTORY", "LISTEN", "LOG_LEVEL")
_UNKNOWN: Final = "not a setting of squat's plugin, which ignores it as well, or not in a form that is known here"
_NO_PLACE: Final = "a manifest of ours has no such setting"


def is_squat(settings: ForeignSettings) -> bool:
    """Whether a document is for squat's plugin: a workload with its image, or its config file."""
    if workloads.kind_of(settings) in workloads.WORKLOADS:
        return any(_is_its(settings, each) for each in workloads.containers_of(settings))
    return any(_key(settings, name) for name in ("devices", "device")) and not settings.at("kind")


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
        InvalidDocument: the text of a ``--device`` is broken.
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
        self._flag_notes: list[MigrationNote] = []
        self._pod: dict[str, Any] = {}

    def migration(self, words: Sequence[str]) -> Migration:
        found = [each for each in self._documents if workloads.kind_of(each) in workloads.WORKLOADS and is_squat(each)]
        if len(found) > 1:
            raise UsageError(f"{found[1].place(())}: a second workload of squat's plugin; migrate each by itself")
        configs = [each for each in self._documents if not workloads.kind_of(each) and is_squat(each)]
        for name, text, settings, path in _config_texts(self._documents):
            inner = [ForeignSettings(each, f"{settings.source}: {name}") for each in read_documents(text, source=name)]
            configs += inner
            self._inner += inner
            settings.note(NoteKind.TAKEN, path, "as below")
        for workload in found:
            self._read_workload(workload)
        self._read_flags([(word, f"flag {word.partition('=')[0]}", None) for word in words], self._flag_notes)
        for config in configs:
            self._read_config(config)
        for each in self._documents:
            if each in configs:
                each.note_rest(_UNKNOWN)
            elif each in found:
                each.note_rest(_NO_PLACE)
            elif workloads.kind_of(each):
                workloads.note_other_object(each)
            else:
                each.note_rest("it is neither a config file of squat's plugin nor an object of Kubernetes")
        return self._result()

    def _result(self) -> Migration:
        entries = _sharing(self._of_flags or self._entries)
        domain = self._domain or self._fallback or _DOMAIN
        notes = [*self._flag_notes, *in_order((*self._documents, *self._inner))]
        if not (self._domain or self._fallback) and entries:
            text = f"{_DOMAIN}, as from 0.2.0 on; up to 0.1 it was {_OLD_DOMAIN}: give --domain if pods ask for that"
            notes.insert(0, MigrationNote(NoteKind.LEFT, "nowhere", "domain", text))
        files = {CONFIG: to_yaml({"domain": domain, "devices": entries})} if entries else {}
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
        if name not in _VARIABLES:
            settings.note(NoteKind.LEFT, at, f"squat's plugin has no variable {name}")
        elif not isinstance(value, str):
            settings.note(NoteKind.LEFT, at, f"the value of {name} is not known here")
        elif name == "DOMAIN" and self._domain:
            settings.note(NoteKind.OTHERWISE, at, f"of no effect: --domain={self._domain} counts")
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
                    self._of_flags += self._read_device(settings, (), is_flag=True)
                    settings.note_rest(_UNKNOWN)
                return NoteKind.TAKEN, "as below"
            case "--domain":
                return self._take_domain(value)
            case "--plugin-directory":
                return _directory(value)
            case "--config":
                return NoteKind.OTHERWISE, f"its content goes into {CONFIG}, if it is among the files"
            case _ if name.removeprefix("--") in _OTHERS:
                return NoteKind.OTHERWISE, _OTHERS[name.removeprefix("--")]
        return NoteKind.LEFT, "squat's plugin has no such flag"

    def _take_domain(self, value: str) -> tuple[NoteKind, str]:
        if not is_subdomain(value):
            return NoteKind.LEFT, "it is not a domain"
        self._domain = value
        return NoteKind.TAKEN, "part of the resources' names"

    # --- a config file ----------------------------------------------------------------------------------------------

    def _read_config(self, settings: ForeignSettings) -> None:
        for name in ("devices", "device"):
            if key := _key(settings, name):
                for at in settings.items(key):
                    if self._of_flags:
                        settings.note(
                            NoteKind.OTHERWISE, (key, at), "--device takes the place of all devices of a file"
                        )
                    else:
                        self._entries += self._read_device(settings, (key, at))
        if key := _key(settings, "domain"):
            if self._domain:
                settings.note(NoteKind.OTHERWISE, (key,), f"{self._domain}, as a flag or variable says")
            else:
                settings.note(*_at((key,), self._take_domain(str(settings.at(key)))))
        if key := _key(settings, "plugin-directory"):
            settings.note(*_at((key,), _directory(str(settings.at(key)))))
        for name, text in _OTHERS.items():
            if key := _key(settings, name):
                settings.note(NoteKind.OTHERWISE, (key,), text)
        settings.note_rest(_UNKNOWN)

    def _read_device(self, settings: ForeignSettings, at: FieldPath, *, is_flag: bool = False) -> list[dict[str, Any]]:
        """The config entry of a device entry; none if nothing of it can be served."""
        name_key, groups_key = _key(settings, "name", at), _key(settings, "groups", at)
        name = settings.at(*at, name_key)
        if not isinstance(name, str) or _NAME.fullmatch(name.strip()) is None:
            settings.note(NoteKind.LEFT, at, "its name is not one: two or more of a-z, 0-9 and -, no - first or last")
            return []
        name = name.strip()
        if len(name) > MAX_LABEL:
            problem = f"the name has {len(name)} characters, and that of a resource at most {MAX_LABEL}"
            settings.note(NoteKind.LEFT, at, problem)
            return []
        known = [each["name"] for each in (*self._entries, *self._of_flags)]
        if name in known:
            settings.note(NoteKind.LEFT, at, f"there is a device {name} already, and squat's plugin would not start")
            return []
        groups = []
        for index in settings.items(*at, groups_key):
            group = self._read_group(settings, (*at, groups_key, index), is_flag=is_flag)
            groups += [group] if group is not None else []
        if not groups:
            settings.note(NoteKind.LEFT, (*at, name_key), "nothing of it can be served")
            return []
        settings.note(NoteKind.TAKEN, (*at, name_key), f"a device of {CONFIG}")
        return [{"name": name, "groups": groups}]

    def _read_group(self, settings: ForeignSettings, at: FieldPath, *, is_flag: bool) -> dict[str, Any] | None:
        """A group of paths or of USB devices; None if it cannot be served."""
        usb_key = _key(settings, "usb", at) or _key(settings, "usbs", at)
        paths_key, count_key = _key(settings, "paths", at), _key(settings, "count", at)
        key = usb_key or paths_key
        places = [(*at, key, index) for index in settings.items(*at, key)]
        rules = [_usb(settings, each, is_flag=is_flag) if usb_key else _rule(settings, each) for each in places]
        missing = "" if rules else "it has no paths"
        problem = next((each for each in rules if isinstance(each, str)), missing)
        count = settings.at(*at, count_key) if count_key else None
        if usb_key and paths_key:
            problem = "it has paths and usb, with which squat's plugin does not start"
        if not problem and count is not None and not _is_count(count):
            problem = "its count is not a number from 0 on"
        if problem:
            settings.note(NoteKind.LEFT, at, problem)
            return None
        for place, rule in zip(places, rules, strict=True):
            assert isinstance(rule, dict)
            for name, value in rule.items():
                text = f"as {value}" if name in _USB_IDS else "the same"
                settings.note(NoteKind.TAKEN, (*place, _key(settings, name, place)), text)
        if count_key:
            settings.note(NoteKind.TAKEN, (*at, count_key), "the same")
        return {"usb" if usb_key else "paths": rules, **({"count": count} if count is not None else {})}


def _sharing(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries; those that give a path of another one share it, as squat's plugin lets them."""
    paths = [_device_paths(entry) for entry in entries]
    owners = Counter(path for each in paths for path in each)
    return [
        {**entry, "shared": True} if any(owners[path] > 1 for path in each) else entry
        for entry, each in zip(entries, paths, strict=True)
    ]


def _device_paths(entry: dict[str, Any]) -> frozenset[str]:
    rules = [rule for group in entry["groups"] for rule in group.get("paths", ())]
    return frozenset(posixpath.normpath(rule["path"]) for rule in rules if rule.get("type", "Device") == "Device")


def _usb(settings: ForeignSettings, at: FieldPath, *, is_flag: bool) -> dict[str, Any] | str:
    """A USB device with its IDs as squat's plugin reads them; a text says why it cannot be served."""
    given = {name: settings.at(*at, key) for name in (*_USB_IDS, "serial") if (key := _key(settings, name, at))}
    rule: dict[str, Any] = {}
    for name in _USB_IDS:
        number = _usb_id(given.get(name), is_flag=is_flag)
        if number is None or number > _MOST_USB_ID:
            return f"its {name} is not a USB ID of one to four hexadecimal digits"
        rule[name] = f"0x{number:04x}"
    serial = given.get("serial")
    if is_flag and isinstance(serial, int) and not isinstance(serial, bool):
        serial = str(serial)
    if serial is not None and not isinstance(serial, str):
        return "its serial is not a text"
    return {**rule, "serial": serial} if serial else rule


def _usb_id(value: object, *, is_flag: bool) -> int | None:
    """The ID that a value is to squat's plugin; None for none.

    A number without quotes is that number in a file. In a flag it is its decimal digits, taken for hexadecimal ones.

    Source: squat/generic-device-plugin 0.1 ``deviceplugin/usb.go``, ``main.go``.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return int(str(value), 16) if is_flag else value
    if isinstance(value, str) and _USB_ID.fullmatch(value):
        return int(value, 16)
    return None


def _rule(settings: ForeignSettings, at: FieldPath) -> dict[str, Any] | str:
    """A path with its settings; a text says why it cannot be served."""
    given = {name: settings.at(*at, key) for name in _PATH_FIELDS if (key := _key(settings, name, at))}
    rule = {
        name: value.strip() if isinstance(value, str) else value for name, value in given.items() if value is not None
    }
    path, kind = rule.get("path"), rule.get("type", "Device")
    if not isinstance(path, str) or not path.startswith("/") or not path.isprintable():
        return "a path has no `path` from the root"
    if kind not in _TYPES:
        return f"{path}: its type is neither Device nor Mount, so that squat's plugin gives an empty device"
    if any(not isinstance(rule.get(name, ""), str) for name in ("mountPath", "permissions")):
        return f"{path}: mountPath and permissions are texts"
    if not set(str(rule.get("permissions", ""))) <= set("rwm"):
        return f"{path}: permissions are r, w and m"
    if not str(rule.get("mountPath") or "/").startswith("/"):
        return f"{path}: its mountPath is not a path from the root"
    if any(not isinstance(rule.get(name, False), bool) for name in ("readOnly", "optional")):
        return f"{path}: readOnly and optional are true or false"
    if not _is_count(rule.get("limit", 0)):
        return f"{path}: its limit is not a number from 0 on"
    return rule


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _key(settings: ForeignSettings, name: str, at: FieldPath = ()) -> str:
    """The key as the file spells it, whose case does not count; empty if it is not there."""
    return next((key for key in settings.keys(*at) if key.lower() == name.lower()), "")


def _at(path: FieldPath, outcome: tuple[NoteKind, str]) -> tuple[NoteKind, FieldPath, str]:
    return outcome[0], path, outcome[1]


def _directory(value: str) -> tuple[NoteKind, str]:
    if value.rstrip("/") == _DIRECTORY:
        return NoteKind.TAKEN, "the kubelet's own"
    return NoteKind.LEFT, f"the manifest is for a kubelet with {_DIRECTORY}"


def _config_texts(documents: Iterable[ForeignSettings]) -> Iterator[tuple[str, str, ForeignSettings, FieldPath]]:
    """The config files in ConfigMaps."""
    for settings in documents:
        if workloads.kind_of(settings) != "ConfigMap":
            continue
        for name in settings.keys("data"):
            text = settings.at("data", name)
            if isinstance(text, str) and _is_config(text):
                for field in ("apiVersion", "kind", "metadata"):
                    settings.note(NoteKind.OTHERWISE, (field,), "it has the name of the DaemonSet")
                yield name, text, settings, ("data", name)


def _is_config(text: str) -> bool:
    try:
        return any(is_squat(ForeignSettings(each, "")) for each in read_documents(text, source=""))
    except InvalidDocument:
        return False
