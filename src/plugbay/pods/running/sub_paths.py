"""Parts of volumes (``subPath``), found and held so that a pod cannot exchange them for something else of the host.

A volume's content is in the hands of its pod: whatever is looked up there by its path may be a symbolic link by the
time an engine looks it up again (CVE-2017-1002101, CVE-2021-25741).

Source: kubelet 1.36 ``pkg/volume/util/subpath/subpath_linux.go``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugbay.errors import VolumeUnusable
from plugbay.kernel.files import make_private
from plugbay.kernel.mounts import bind, open_beneath, unmount
from plugbay.model.ids import PodUid
from plugbay.model.pods import Container, EmptyDir, Pod, VolumeMount
from plugbay.model.projections import Projection
from plugbay.model.requests import ContainerKind

if TYPE_CHECKING:
    from collections.abc import Iterator

_SUB_PATHS: Final = "volume-subpaths"


class SubPathMeans(Enum):
    """The means by which a container is given a part of a volume."""

    BOUND = "bound"
    """The file that was found is mounted at a path of the node's own, which the engine gets, whatever happens."""
    NAMED = "named"
    """The engine gets the path, since we may not mount anything or the engine would not see the mount.

    This is allowed only where no running container can exchange the path meanwhile.
    """
    OPEN = "open"
    """The container gets the path: it is not confined at all."""


class SubPaths:
    """Parts of the volumes of pods. Every method may wait for the disk.

    Args:
        pods_dir: holds a directory for each pod.
    """

    def __init__(self, pods_dir: Path, means: SubPathMeans) -> None:
        self._pods_dir = pods_dir
        self._means = means

    def place(self, pod: Pod, container: Container, mount: VolumeMount, root: Path) -> Path:
        """The path for the engine of ``mount``, which has a ``sub_path``. What is missing becomes a directory.

        Args:
            root: where the volume lies.

        Raises:
            VolumeUnusable: it leads out of the volume, or cannot be made or held.
        """
        if self._means is SubPathMeans.NAMED:
            _check_nothing_exchanges_it(pod, container, mount)
        with _problems_of(mount):
            path, held = _find(mount, root)
            try:
                if self._means is SubPathMeans.OPEN:
                    return root / mount.sub_path  # and what a link on the way leads to later
                if self._means is SubPathMeans.NAMED:
                    return path
                number = container.volume_mounts.index(mount)
                return self._bound(held, self._directory(pod.uid) / mount.name / container.name / str(number))
            finally:
                os.close(held)

    def clear(self, pod: PodUid) -> None:
        """Unmount what was mounted for a pod, and remove its places; what the mounts showed stays untouched.

        Raises:
            OSError: something stays mounted; no directory above it may be deleted with its content.
        """
        for volume in _entries(self._directory(pod)):
            for container in _entries(volume):
                for place in _entries(container):
                    _free(place)
                container.rmdir()
            volume.rmdir()
        with suppress(FileNotFoundError):
            self._directory(pod).rmdir()

    def _directory(self, pod: PodUid) -> Path:
        return self._pods_dir / pod / _SUB_PATHS

    def _bound(self, held: int, place: Path) -> Path:
        """An earlier start of the container may have left something there, which has ended since."""
        make_private(*reversed(place.parents[:5]))
        _free(place)
        if stat.S_ISDIR(os.fstat(held).st_mode):
            place.mkdir()
        else:
            place.touch()
        bind(held, place)
        return place


def _find(mount: VolumeMount, root: Path) -> tuple[Path, int]:
    """The part of a volume and a descriptor of it. Symbolic links count as long as they stay in the volume."""
    root = Path(os.path.realpath(root))
    path = Path(os.path.realpath(root / mount.sub_path))
    if not path.is_relative_to(root):
        raise VolumeUnusable(mount.name, f"subPath {mount.sub_path} leads out of the volume")
    directory = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return path, open_beneath(directory, path.relative_to(root).parts)
    finally:
        os.close(directory)


def _check_nothing_exchanges_it(pod: Pod, container: Container, mount: VolumeMount) -> None:
    """Refuse a volume that another container could change before the engine looks the path up again.

    Raises:
        VolumeUnusable: another container of the pod can write to it, or it is a directory of the host and that cannot
            be known.
    """
    cannot = (
        "a node without root rights, or with mounts apart from its engine's, cannot hold a part of a volume in place"
    )
    why = f"subPath {mount.sub_path}: {cannot}"
    source = next(each.source for each in pod.spec.volumes if each.name == mount.name)
    if isinstance(source, Projection):
        return  # only the node writes there
    if not isinstance(source, EmptyDir):
        raise VolumeUnusable(mount.name, f"{why}; give that directory of the host as a hostPath of its own")
    for other in _beside(pod, container):
        if any(each.name == mount.name and not each.read_only for each in other.volume_mounts):
            problem = f"{why}, and container {other.name} may write to this volume; mount it there with readOnly: true"
            raise VolumeUnusable(mount.name, problem)


def _beside(pod: Pod, container: Container) -> Iterable[Container]:
    """The containers that may run while ``container`` starts: an init container has ended before the next one."""
    others = (each for each in pod.spec.all_containers if each.name != container.name)
    if container.kind is ContainerKind.INIT:
        return (each for each in others if each.kind is ContainerKind.SIDECAR)
    return (each for each in others if each.kind is not ContainerKind.INIT)


def _entries(directory: Path) -> list[Path]:
    """The entries of a directory; none if it does not exist.

    Raises:
        OSError: it cannot be listed, so that nothing is known of what is mounted in it.
    """
    try:
        return list(directory.iterdir())
    except FileNotFoundError:
        return []


def _free(place: Path) -> None:
    """Take away a mount with the empty file or directory under it."""
    unmount(place)
    with suppress(FileNotFoundError):
        if place.is_dir() and not place.is_symlink():
            place.rmdir()
        else:
            place.unlink()


@contextmanager
def _problems_of(mount: VolumeMount) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise VolumeUnusable(mount.name, f"subPath {mount.sub_path}: {error.strerror}{where}") from error
