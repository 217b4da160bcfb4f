"""Places for mounts where the host's directories, which containers see read-only, have none.

What a container gets at ``/opt/driver`` needs a directory there, and the host need not have one. An overlay shows one
more layer on top: a directory of the container's own that holds nothing but the places.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from plugbay.cdi.inject import OciSpec, clean
from plugbay.runtimes.oci.rootfs import LOWER_LAYERS, RootFs
from plugbay.values import dataclass

_LAYERS: Final = "points"
_BINDS: Final = frozenset({"bind", "rbind"})
"""Types and options of mounts that show something of the host, which may be a file; as in CDI specs of GPUs."""


@dataclass(frozen=True, slots=True)
class MountPoints:
    """The content of a container's own directory that its mounts need.

    Attributes:
        config: the OCI spec that shows it.
        directories, files: empty ones, by their paths in the container's directory.
    """

    config: OciSpec
    directories: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def with_mount_points(config: OciSpec, root: RootFs, directory: Path) -> MountPoints:
    """``config`` with a place for each of its mounts that would have none.

    A mount in a directory that is not an overlay, or behind a symbolic link, is left to the engine; it may refuse it.

    Args:
        root: what ``config`` shows of the host.
        directory: where the container's directory will be.
    """
    overlays = {each["destination"]: each for each in root.mounts if each["type"] == "overlay"}
    layers = {place: f"{_LAYERS}/{index}" for index, place in enumerate(sorted(overlays))}
    directories: dict[str, None] = {}
    files: dict[str, None] = {}
    for place, inside, is_directory in _missing(config["mounts"], root, overlays):
        (directories if is_directory else files)[f"{layers[place]}/{inside}"] = None
    used = {
        place for place, layer in layers.items() if any(each.startswith(f"{layer}/") for each in (*directories, *files))
    }
    mounts = [
        _with_layer(each, directory / layers[each["destination"]])
        if each["destination"] in used and each["type"] == "overlay"
        else each
        for each in config["mounts"]
    ]
    return MountPoints({**config, "mounts": mounts}, tuple(directories), tuple(files))


def _missing(
    mounts: Iterable[Mapping[str, Any]], root: RootFs, overlays: Mapping[str, Any]
) -> Iterator[tuple[str, str, bool]]:
    """The overlay, the path in it, and whether a directory belongs there."""
    others = [each for each in mounts if each not in root.mounts]
    places = {_normal(each) for each in others}
    for each in others:
        path = root.resolved(_normal(each))
        below = [place for place in (*root.sources, *places - {path}) if path.startswith(f"{place.rstrip('/')}/")]
        nearest = max(below, key=len, default="")
        if nearest in overlays and nearest not in places and not root.has_room(path):
            inside = path.removeprefix(f"{nearest}/")
            if _is_plain(root.sources[nearest], inside):
                yield nearest, inside, not _is_file(each)


def _is_plain(source: Path, inside: str) -> bool:
    """Whether every part of the way that is there is a directory: a layer on top would hide anything else."""
    for part in Path(inside).parts[:-1]:
        source /= part
        try:
            if not stat.S_ISDIR(source.lstat().st_mode):
                return False
        except FileNotFoundError:
            return True
    return True


def _is_file(mount: Mapping[str, Any]) -> bool:
    return bool(_BINDS & {mount.get("type"), *mount.get("options", ())}) and not os.path.isdir(mount["source"])


def _with_layer(mount: Mapping[str, Any], layer: Path) -> dict[str, Any]:
    options = [
        f"{LOWER_LAYERS}{layer}:{option.removeprefix(LOWER_LAYERS)}" if option.startswith(LOWER_LAYERS) else option
        for option in mount["options"]
    ]
    return {**mount, "options": options}


def _normal(mount: Mapping[str, Any]) -> str:
    """The absolute path of a mount's target; engines take a relative path from the root."""
    return clean(os.path.join("/", mount["destination"]))
