"""The reading of NVIDIA's files and flags, put together from all of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from plugbay.errors import UsageError
from plugbay.model.field_path import FieldPath
from plugbay.plugins.nvidia.config import flags
from plugbay.plugins.nvidia.config.arguments import parse_arguments
from plugbay.plugins.nvidia.config.flags import PLUGIN_FLAGS, ConfigFlag, FlagKind
from plugbay.sdk.deploying.deployment import FILES
from plugbay.sdk.deploying.migrating.settings import ForeignSettings, Migration, MigrationNote, NoteKind, in_order

ORIGIN: Final = "nvidia"
_KUBELET: Final = flags.KUBELET_SOCKET.default
_BY_NAME: Final = {name: flag for flag in PLUGIN_FLAGS for name in flag.names}
_BY_VARIABLE: Final = {name: flag for flag in PLUGIN_FLAGS for name in flag.variables}
_OWN_VARIABLES: Final = {
    "NVIDIA_VISIBLE_DEVICES": "set anyway",
    "NVIDIA_DRIVER_CAPABILITIES": "set anyway",
    "NVIDIA_MIG_MONITOR_DEVICES": "set where MIG devices are offered",
    "NODE_NAME": "set where a label chooses the configuration",
}
_HEALTH: Final = ("DP_DISABLE_HEALTHCHECKS", "DP_ENABLE_HEALTHCHECKS")


class NvidiaReading:
    """The settings that were found so far.

    Attributes:
        files: of the ConfigMap.
        pod: where and how the pods run.
        notes: on flags that lie in no file.
    """

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.pod: dict[str, Any] = {}
        self.notes: list[MigrationNote] = []
        self._words: dict[str, str] = {}
        self._places: dict[str, str] = {}
        self._variables: dict[str, str] = {}

    def take(self, flag: ConfigFlag, value: object, at: str = "", *, overrides: bool = True) -> tuple[NoteKind, str]:
        """Take a flag's value over, unless it has one already that counts more; returns what becomes of it.

        Args:
            at: file, line and field, or the flag; empty for what is not given as such.

        Raises:
            UsageError: no flag of this kind has such a value.
        """
        if flag.kind is FlagKind.TEXTS and isinstance(value, list):
            value = ",".join(map(str, value))
        if isinstance(value, dict | list) or value is None:
            return NoteKind.LEFT, f"it is not a value for --{flag.names[0]}"
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if flag is flags.KUBELET_SOCKET and text != _KUBELET:
            return NoteKind.LEFT, "the manifest is for the kubelet at /var/lib/kubelet"
        if flag is flags.KUBELET_SOCKET:
            return NoteKind.TAKEN, "the kubelet's own"
        if flag is flags.CONFIG_FILE and flags.CONFIG_DIRECTORY.names[0] in self._words:
            return NoteKind.OTHERWISE, "the plugin reads the file that the label names where it lies"
        if flag.names[0] in self._words and not overrides:
            return NoteKind.OTHERWISE, f"of no effect: --{flag.names[0]}={self._words[flag.names[0]]} counts"
        try:
            parse_arguments([f"--{flag.names[0]}={text}"])
        except UsageError as error:
            raise UsageError(f"{at}: {error}" if at else str(error)) from error
        self._words[flag.names[0]] = text
        self._places |= {flag.key: at} if at else {}
        return NoteKind.TAKEN, f"--{flag.names[0]}={text}"

    def take_files(self, *, default: str = "") -> None:
        """Let the node's label choose among the files."""
        self._words[flags.CONFIG_DIRECTORY.names[0]] = FILES
        self._words.pop(flags.CONFIG_FILE.names[0], None)
        if default:
            self._words[flags.DEFAULT_CONFIG.names[0]] = default

    def add_files(self, files: Mapping[str, str]) -> None:
        """Add files to the ConfigMap; each ends with a line end, so that it is readable there."""
        self.files |= {name: text if text.endswith("\n") else f"{text}\n" for name, text in files.items()}

    def take_file(self, name: str, text: str) -> None:
        """Serve with one file."""
        self.add_files({name: text})
        self._words[flags.CONFIG_FILE.names[0]] = f"{FILES}/{name}"

    @property
    def config_file(self) -> str:
        """The path that a flag or variable names; empty for none."""
        return self._words.get(flags.CONFIG_FILE.names[0], "")

    def forget_files(self) -> None:
        """Serve without a file."""
        for flag in (flags.CONFIG_FILE, flags.CONFIG_DIRECTORY):
            self._words.pop(flag.names[0], None)

    def read_flags(self, words: Sequence[tuple[str, FieldPath]], settings: ForeignSettings | None) -> None:
        """Read the flags of a command line; with ``settings``, those are at the paths in its file."""
        following, lists = iter(words), set[ConfigFlag]()
        for word, path in following:
            name, has_value, value = word.lstrip("-").partition("=")
            flag, places = _BY_NAME.get(name), [path]
            if flag is not None and not has_value:
                value = "true"
                if flag.kind is not FlagKind.BOOLEAN:
                    value, further = next(following, ("", ()))
                    places.append(further)
            if flag is None or not word.startswith("-"):
                kind, text = NoteKind.LEFT, "the plugin has no such flag"
            else:
                if flag in lists:  # one that is given again adds to its list
                    value = f"{self._words[flag.names[0]]},{value}"
                kind, text = self.take(flag, value, f"flag --{name}" if settings is None else settings.located(path))
                if flag.kind is FlagKind.TEXTS:
                    lists.add(flag)
            for each in places if settings is not None else ():
                assert settings is not None
                settings.note(kind, each, text)
            if settings is None:
                self.notes.append(MigrationNote(kind, "flag", word, text))

    def read_variables(self, settings: ForeignSettings, container: FieldPath) -> None:
        """Read the environment of a container; flags count more."""
        for at in settings.items(*container, "env"):
            path = (*container, "env", at)
            name, value = (settings.at(*path, key) for key in ("name", "value"))
            if value is None and not settings.at(*path, "valueFrom"):
                value = ""  # as v1 has it
            if not isinstance(name, str):
                settings.note(NoteKind.LEFT, path, "it has no name")
            elif name in _OWN_VARIABLES:
                settings.note(NoteKind.OTHERWISE, path, f"{name}: {_OWN_VARIABLES[name]}")
            elif not isinstance(value, str):
                settings.note(NoteKind.LEFT, path, f"the value of {name} is not known here")
            elif name in _HEALTH:
                self._variables[name] = value
                settings.note(NoteKind.TAKEN, path, f"the variable {name}={value}")
            elif name in _BY_VARIABLE:
                settings.note(*_at(path, self._take_variable(_BY_VARIABLE[name], value, settings.located(path))))
            else:
                settings.note(NoteKind.LEFT, path, f"the plugin has no variable {name}")

    def _take_variable(self, flag: ConfigFlag, value: str, at: str) -> tuple[NoteKind, str]:
        if not value and flag.kind is FlagKind.INTEGERS:
            return NoteKind.OTHERWISE, "empty, which is of no effect"
        is_off = not value and flag.kind is FlagKind.BOOLEAN
        return self.take(flag, "false" if is_off else value, at, overrides=False)

    def migration(self, documents: Sequence[ForeignSettings]) -> Migration:
        """All of it.

        Raises:
            UsageError: it names a file that is not among the documents.
        """
        file = self.config_file
        if file and not file.startswith(f"{FILES}/"):
            raise UsageError(f"--config-file={file}: give that file as well, or the ConfigMap that holds it")
        return Migration(
            origin=ORIGIN,
            words=(ORIGIN, *(f"--{name}={value}" for name, value in self._words.items())),
            files=self.files,
            variables=self._variables,
            places=self._places,
            pod=self.pod,
            notes=(*self.notes, *in_order(documents)),
        )


def _at(path: FieldPath, outcome: tuple[NoteKind, str]) -> tuple[NoteKind, FieldPath, str]:
    return outcome[0], path, outcome[1]
