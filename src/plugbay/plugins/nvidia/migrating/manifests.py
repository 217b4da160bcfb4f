"""NVIDIA's manifests, of its repository or rendered from its chart, and its configuration files. Pure.

Source: k8s-device-plugin 0.20 ``deployments/``; spec 9.1, 9.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plugbay.documents.texts import to_yaml
from plugbay.errors import UsageError
from plugbay.model.field_path import FieldPath
from plugbay.plugins.nvidia.config import flags
from plugbay.plugins.nvidia.migrating.reader import NvidiaReading
from plugbay.plugins.nvidia.migrating.values import are_values, read_values
from plugbay.sdk.deploying.migrating import workloads
from plugbay.sdk.deploying.migrating.settings import ForeignSettings, Migration, NoteKind
from plugbay.sdk.deploying.migrating.volumes import (
    ConfigMapFile,
    config_map_volumes,
    mounted_files,
    note_kubelets_directory,
)

_PLUGIN: Final = "nvidia-device-plugin"
_IMAGE: Final = "k8s-device-plugin"
_MANAGER: Final = "config-manager"
_OTHERS: Final = {
    "gpu-feature-discovery": "`plugbay nvidia labels` takes its place, but this is not part of the manifest",
    "mps-control-daemon": "`plugbay nvidia mps` takes its place, but this is not part of the manifest",
}
_OF_MANAGER: Final = {
    "NODE_LABEL": flags.NODE_LABEL,
    "DEFAULT_CONFIG": flags.DEFAULT_CONFIG,
    "FALLBACK_STRATEGIES": flags.FALLBACK_STRATEGIES,
}
_CONFIG_FIELDS: Final = frozenset({"version", "flags", "resources", "sharing", "imex"})
_CHECKSUM: Final = ("spec", "template", "metadata", "annotations", "checksum/config")
_CONFIG_NAME: Final = "config.yaml"


def is_nvidia(settings: ForeignSettings) -> bool:
    """Whether a document is for NVIDIA's plugin: a workload, values of its chart, or a configuration file."""
    if workloads.kind_of(settings) in workloads.WORKLOADS:
        return any(_program(settings, each) for each in workloads.containers_of(settings))
    return are_values(settings) or _is_configuration(settings)


def _is_configuration(settings: ForeignSettings) -> bool:
    keys = set(settings.keys())
    return not workloads.kind_of(settings) and bool(keys & {"flags", "sharing", "imex"}) and keys <= _CONFIG_FIELDS


def _program(settings: ForeignSettings, container: FieldPath) -> str:
    """The program of NVIDIA's that a container runs; empty if it is none of them."""
    word = next((word for word, _ in workloads.read_words(settings, container)), "")
    first = word if word.startswith("-") else word.rpartition("/")[2]
    name = settings.at(*container, "name")
    known = (_PLUGIN, _MANAGER, *_OTHERS)
    if first in known:
        return first
    if not first.startswith("-") and first:
        return ""
    if _IMAGE not in workloads.image_of(settings, container):
        return ""
    return next((each for each in known if str(name).startswith(each)), _PLUGIN)


def migrate_nvidia(documents: Sequence[ForeignSettings], words: Sequence[str]) -> Migration:
    """Read its files and flags.

    Args:
        documents: of all files.
        words: flags, as on a command line.

    Raises:
        UsageError: there are several plugins or none, or a file that is named is missing.
    """
    reading = NvidiaReading()
    plugins = [each for each in documents if _runs(each, _PLUGIN)]
    values = [each for each in documents if not workloads.kind_of(each) and are_values(each)]
    if not (
        words or plugins or values or any(map(_is_configuration, documents))
    ):  # few values show by themselves whose they are
        values = [each for each in documents if isinstance(each.value, dict) and not each.at("kind")]
        if not values:
            raise UsageError("nothing in the files is for NVIDIA's plugin, so nothing is printed")
    if len(twice := [*plugins, *values]) > 1:
        raise UsageError(f"{twice[1].place(())}: a second plugin; migrate each by itself")
    reading.read_flags([(word, ()) for word in words], None)
    for each in values:
        read_values(each, reading)
    for each in plugins:
        _read_plugin(each, reading, documents)
    _read_configurations(documents, reading)
    for each in documents:
        _note_others(each)
    return reading.migration(documents)


def _runs(settings: ForeignSettings, program: str) -> bool:
    if workloads.kind_of(settings) not in workloads.WORKLOADS:
        return False
    return any(_program(settings, each) == program for each in workloads.containers_of(settings))


def _read_plugin(settings: ForeignSettings, reading: NvidiaReading, documents: Sequence[ForeignSettings]) -> None:
    reading.pod = workloads.read_workload(settings)
    note_kubelets_directory(settings)
    programs = {each: _program(settings, each) for each in workloads.containers_of(settings)}
    managers = [each for each, program in programs.items() if program == _MANAGER]
    for container in managers:
        _read_manager(settings, container, reading)
    if managers:
        reading.take_files()
    for container, program in programs.items():
        if program == _PLUGIN:
            _read_container(settings, container, reading)
        elif program != _MANAGER:
            settings.note(NoteKind.LEFT, container, _OTHERS.get(program, "it is not NVIDIA's plugin"))
    of_plugin = next(each for each, program in programs.items() if program == _PLUGIN)
    _read_maps(settings, reading, documents, of_plugin, is_managed=bool(managers))
    settings.note(NoteKind.OTHERWISE, _CHECKSUM, "a config file that changes is read again")
    settings.note_rest("a manifest of ours has no such setting")


def _read_container(settings: ForeignSettings, container: FieldPath, reading: NvidiaReading) -> None:
    workloads.note_container(settings, container)
    words = workloads.read_words(settings, container)
    own = next((at for at, (word, _) in enumerate(words) if word.startswith("-")), len(words))
    for _, path in words[:own]:
        settings.note(NoteKind.OTHERWISE, path, "plugbay serve nvidia")
    reading.read_flags(words[own:], settings)
    reading.read_variables(settings, container)


def _read_manager(settings: ForeignSettings, container: FieldPath, reading: NvidiaReading) -> None:
    for at in settings.items(*container, "env"):
        path = (*container, "env", at)
        name, value = (settings.at(*path, key) for key in ("name", "value"))
        if isinstance(name, str) and name in _OF_MANAGER and isinstance(value, str):
            if value:
                reading.take(_OF_MANAGER[str(name)], value, settings.located(path))
            settings.note(NoteKind.TAKEN, path, f"--{_OF_MANAGER[str(name)].names[0]}")
    settings.note(NoteKind.OTHERWISE, container, "the plugin follows the node's label itself")


def _read_maps(
    settings: ForeignSettings,
    reading: NvidiaReading,
    documents: Sequence[ForeignSettings],
    container: FieldPath,
    *,
    is_managed: bool,
) -> None:
    """Take the files of ConfigMaps that count: all that a label may name, or that which the plugin is told to read."""
    volumes = list(config_map_volumes(settings, documents))
    mounted = {} if is_managed else mounted_files(settings, container, volumes)
    file = mounted.get(reading.config_file)
    if file is not None:
        reading.take_file(file.key, file.text)
        file.config_map.note(NoteKind.TAKEN, ("data", file.key), "a file of the ConfigMap")
    for each in mounted.values():
        each.config_map.note(NoteKind.LEFT, ("data", each.key), "the plugin does not read this file")
    for volume in volumes:
        if volume.config_map is None:
            settings.note(NoteKind.LEFT, volume.at, "give the ConfigMap as well: its files go into the manifest")
            reading.forget_files()
        elif is_managed:
            reading.add_files({name: ConfigMapFile(volume.config_map, key).text for name, key in volume.keys.items()})
            volume.config_map.note(NoteKind.TAKEN, ("data",), "files of the ConfigMap")
            settings.note(NoteKind.TAKEN, volume.at, "its files are in the ConfigMap of the manifest")
        elif file is not None and volume.config_map is file.config_map:
            settings.note(NoteKind.TAKEN, volume.at, "the file that counts is in the ConfigMap of the manifest")


def _read_configurations(documents: Sequence[ForeignSettings], reading: NvidiaReading) -> None:
    """Take configuration files over as they are, but for comments."""
    found = [each for each in documents if _is_configuration(each)]
    for each in found:
        name = each.source.rpartition("/")[2] if len(found) > 1 else _CONFIG_NAME
        if name in reading.files:
            raise UsageError(f"{each.source}: there is a file {name} already")
        reading.take_file(name, to_yaml(each.value))
        each.note(NoteKind.TAKEN, (), f"the file {name} of the ConfigMap, as it is")
    if len(found) > 1:
        reading.take_files()


def _note_others(settings: ForeignSettings) -> None:
    """Tell of objects that are not the plugin's workload."""
    if not workloads.kind_of(settings):
        settings.note_rest("neither the chart nor the plugin has it")
    elif not _runs(settings, _PLUGIN):
        for program, text in _OTHERS.items():
            if _runs(settings, program):
                settings.note(NoteKind.LEFT, (), text)
        workloads.note_other_object(settings)
