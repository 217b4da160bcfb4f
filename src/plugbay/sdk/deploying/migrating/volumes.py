"""The volumes of another plugin's pods: files of ConfigMaps, and the kubelet's directory of plugins. Pure.

Source: Kubernetes 1.36 ``core/v1``; ``pkg/volume/configmap/configmap.go`` (items).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from plugbay.model.field_path import FieldPath
from plugbay.sdk.deploying.migrating import workloads
from plugbay.sdk.deploying.migrating.settings import ForeignSettings, NoteKind
from plugbay.sdk.deploying.plugin_needs import KUBELET_ROOT, is_below
from plugbay.values import dataclass

_DIRECTORY: Final = f"{KUBELET_ROOT}/device-plugins"
_ELSEWHERE: Final = (
    f"the manifest is for the kubelet at {KUBELET_ROOT}: change the hostPath of its volume device-plugins, and of "
    "others below that directory"
)


@dataclass(frozen=True, slots=True)
class ConfigMapVolume:
    """A volume with the files of a ConfigMap, or the part of a projected one.

    Attributes:
        at: its path in the workload.
        volume: its name.
        config_map: None if it is not among the documents.
        keys: of the ConfigMap, by their paths in the volume.
    """

    at: FieldPath
    volume: str
    config_map: ForeignSettings | None
    keys: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConfigMapFile:
    """A file of a ConfigMap in a container."""

    config_map: ForeignSettings
    key: str

    @property
    def text(self) -> str:
        return str(self.config_map.at("data", self.key))


def config_map_volumes(workload: ForeignSettings, documents: Iterable[ForeignSettings]) -> Iterator[ConfigMapVolume]:
    """The volumes of a workload's pods that have files of ConfigMaps."""
    maps = [each for each in documents if workloads.kind_of(each) == "ConfigMap"]
    spec = workloads.template_of(workload)
    for index in workload.items(*spec, "volumes"):
        at = (*spec, "volumes", index)
        projected = (*at, "projected", "sources")
        for place in (at, *((*projected, each) for each in workload.items(*projected))):
            if isinstance(name := workload.at(*place, "configMap", "name"), str):
                found = next((each for each in maps if _is_named(each, name, workload)), None)
                keys = {} if found is None else _keys(workload, (*place, "configMap"), found)
                yield ConfigMapVolume(at, str(workload.at(*at, "name")), found, keys)


def _is_named(config_map: ForeignSettings, name: str, workload: ForeignSettings) -> bool:
    spaces = {config_map.at("metadata", "namespace"), workload.at("metadata", "namespace")} - {None}
    return config_map.at("metadata", "name") == name and len(spaces) < 2


def _keys(workload: ForeignSettings, at: FieldPath, config_map: ForeignSettings) -> Mapping[str, str]:
    texts = [key for key in config_map.keys("data") if isinstance(config_map.at("data", key), str)]
    items = [(*at, "items", index) for index in workload.items(*at, "items")]
    if not items:  # an empty list as well: an API server leaves it out
        return {key: key for key in texts}
    chosen = {str(workload.at(*item, "path")): str(workload.at(*item, "key")) for item in items}
    return {posixpath.normpath(path): key for path, key in chosen.items() if key in texts}


def mounted_files(
    workload: ForeignSettings, container: FieldPath, volumes: Iterable[ConfigMapVolume]
) -> dict[str, ConfigMapFile]:
    """The files of ConfigMaps in a container, by their paths there."""
    files: dict[str, ConfigMapFile] = {}
    for each in volumes:
        for place, below in _mounts(workload, container, each.volume):
            for path, key in each.keys.items():
                if each.config_map is not None and is_below(path, below or path):
                    rest = path[len(below) :].strip("/") if below else path
                    files[posixpath.normpath(f"{place}/{rest}")] = ConfigMapFile(each.config_map, key)
    return files


def _mounts(workload: ForeignSettings, container: FieldPath, volume: str) -> Iterator[tuple[str, str]]:
    """The places at which a container has a volume, each with the path in the volume that is there; empty for all."""
    for index in workload.items(*container, "volumeMounts"):
        at = (*container, "volumeMounts", index)
        if workload.at(*at, "name") == volume and isinstance(place := workload.at(*at, "mountPath"), str):
            below = workload.at(*at, "subPath")
            yield posixpath.normpath(place), posixpath.normpath(below) if isinstance(below, str) and below else ""


def note_kubelets_directory(workload: ForeignSettings) -> None:
    """Tell of volumes by which the pods reach a kubelet that has its directory of plugins elsewhere."""
    spec = workloads.template_of(workload)
    for index in workload.items(*spec, "volumes"):
        at = (*spec, "volumes", index)
        path = workload.at(*at, "hostPath", "path")
        if not isinstance(path, str):
            continue
        for container in workloads.containers_of(workload):
            for place, below in _mounts(workload, container, str(workload.at(*at, "name"))):
                host = posixpath.normpath(f"{path}/{below}/{_DIRECTORY[len(place) :]}")
                if is_below(_DIRECTORY, place) and host != _DIRECTORY:
                    workload.note(NoteKind.LEFT, (*at, "hostPath", "path"), _ELSEWHERE)
