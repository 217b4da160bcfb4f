"""Volumes of pods on the host: directories are made, filled and removed, host paths checked, sub-paths placed."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from plugbay.errors import PathUnusable, VolumeUnusable
from plugbay.kernel.files import make_directories, make_private
from plugbay.kernel.mounts import mounted, unmount
from plugbay.kernel.tmpfs import mount_tmpfs
from plugbay.kernel.trees import remove_tree
from plugbay.model.edits import Mount
from plugbay.model.ids import PodUid
from plugbay.model.pods import Container, EmptyDir, HostPath, HostPathType, Pod, Volume, VolumeMount
from plugbay.model.projections import Projection, ProjectionKind
from plugbay.pods.running.atomic_files import is_written, write_files
from plugbay.pods.running.projecting import VolumeFiles
from plugbay.pods.running.sub_paths import SubPathMeans, SubPaths

_PROC: Final = Path("/proc")
_TMPFS: Final = "tmpfs"
_ANY_WRITES: Final = 0o777
"""Any user of a container may write there, as a kubelet has it."""
_GROUP_WRITES: Final = 0o2777
"""Files that are made there belong to the group, too."""
_VOLUME_DEPTH: Final = 3
"""The depth of a volume below its pod's directory."""
_NO_MEMORY: Final = (
    "a volume in memory needs a node with root rights, and an engine that sees the node's mounts; leave out medium"
)
_SECRETS_BYTES: Final = 64 * 2**20
"""Bounds a volume with secrets in it: an API server takes 1 MiB for each."""
_PLUGINS: Final = {
    ProjectionKind.CONFIG_MAP: "kubernetes.io~configmap",
    ProjectionKind.SECRET: "kubernetes.io~secret",
    ProjectionKind.DOWNWARD_API: "kubernetes.io~downward-api",
    ProjectionKind.PROJECTED: "kubernetes.io~projected",
}


class Volumes:
    """The volumes of pods below ``pods_dir``, laid out as by a kubelet. Every method may wait for the disk.

    Args:
        means: how containers are given parts of volumes.
        memory_bytes: bounds a volume in memory that has no limit of its own.
    """

    def __init__(self, pods_dir: Path, means: SubPathMeans, *, memory_bytes: int = 2**30) -> None:
        self._pods_dir = pods_dir
        self._means = means
        self._memory_bytes = memory_bytes
        self._sub_paths = SubPaths(pods_dir, means)

    def prepare(self, pod: Pod, files: VolumeFiles | None = None) -> dict[str, Path]:
        """Make the volumes and tell where each lies; harmless to repeat.

        Args:
            files: of projected volumes. A volume that is left out stays as it is.

        Raises:
            VolumeUnusable: a host path is not what the pod says, or something cannot be made.
        """
        group = pod.spec.security.fs_group
        return {volume.name: self._prepare(pod.uid, volume, files, group=group) for volume in pod.spec.volumes}

    def renew(self, pod: Pod, files: VolumeFiles) -> None:
        """Write the files of projected volumes anew; all that containers own stays as they have made it.

        Raises:
            VolumeUnusable: something cannot be written.
        """
        for volume in pod.spec.volumes:
            if isinstance(volume.source, Projection):
                self._prepare(pod.uid, volume, files, group=pod.spec.security.fs_group)

    def has_content(self, pod: Pod, volume: Volume) -> bool:
        """Whether a projected volume was written before."""
        return isinstance(volume.source, Projection) and is_written(self._path(pod.uid, volume.name, volume.source))

    def mounts(self, pod: Pod, container: Container, volumes: Mapping[str, Path]) -> tuple[Mount, ...]:
        """The mounts of ``container``, for one start of it. A sub-path that is missing becomes a directory.

        Args:
            volumes: what `prepare` returned.

        Raises:
            VolumeUnusable: a sub-path leads out of its volume, or cannot be made.
        """
        projected = {each.name for each in pod.spec.volumes if isinstance(each.source, Projection)}
        return tuple(
            Mount(
                container_path=each.mount_path,
                host_path=str(self._place(pod, container, each, volumes[each.name])),
                read_only=each.read_only or each.name in projected,
            )
            for each in container.volume_mounts
        )

    def remove(self, pod: PodUid) -> None:
        """Take away what `prepare` and `mounts` made, with its contents.

        Raises:
            PathUnusable: something cannot be deleted, or a sub-path stays mounted, so that nothing may be deleted: it
                shows what is not ours.
        """
        directory = self._pods_dir / pod
        try:
            self._sub_paths.clear(pod)
            for path in self._mounted_below(directory / "volumes", kind=_TMPFS):
                if len(path.relative_to(os.path.realpath(directory)).parts) == _VOLUME_DEPTH:
                    unmount(path)
            left = self._mounted_below(directory)
        except OSError as error:
            raise PathUnusable(str(directory), f"cannot unmount {error.filename}: {error.strerror}") from error
        if left:
            raise PathUnusable(str(directory), f"cannot be deleted: {left[0]} is mounted there; unmount it")
        try:
            remove_tree(directory)
        except OSError as error:
            raise PathUnusable(str(directory), f"cannot be deleted: {error.filename}: {error.strerror}") from error

    def _place(self, pod: Pod, container: Container, mount: VolumeMount, root: Path) -> Path:
        return self._sub_paths.place(pod, container, mount, root) if mount.sub_path else root

    @staticmethod
    def _mounted_below(directory: Path, *, kind: str = "") -> list[Path]:
        """The mount points below a directory, the deepest first; with ``kind`` those of that type."""
        top = os.path.realpath(directory)
        found = (path for path, type in mounted(proc_root=_PROC) if path.is_relative_to(top) and kind in ("", type))
        return sorted(found, reverse=True)

    def _path(self, pod: PodUid, name: str, source: EmptyDir | Projection) -> Path:
        plugin = "kubernetes.io~empty-dir" if isinstance(source, EmptyDir) else _PLUGINS[source.kind]
        return self._pods_dir / pod / "volumes" / plugin / name

    def _prepare(self, pod: PodUid, volume: Volume, files: VolumeFiles | None, *, group: int | None) -> Path:
        try:
            match volume.source:
                case Projection() as source:
                    path = self._path(pod, volume.name, source)
                    make_private(self._pods_dir, self._pods_dir / pod)
                    path.mkdir(parents=True, exist_ok=True)
                    if source.is_secret:
                        self._keep_in_memory(path, mode=0o755, size_bytes=_SECRETS_BYTES)
                    path.chmod(0o755)
                    if files is not None and volume.name in files.payloads:
                        write_files(path, files.payloads[volume.name], now=files.at, group=group)
                    return path
                case EmptyDir() as source:
                    path = self._path(pod, volume.name, source)
                    make_private(self._pods_dir, self._pods_dir / pod)
                    if not source.in_memory:
                        _make_writable(path, group=group)
                        return path
                    path.mkdir(parents=True, exist_ok=True)
                    limit = source.size_limit.to_int_ceil() if source.size_limit else 0
                    mode = _ANY_WRITES if group is None else _GROUP_WRITES
                    if not self._keep_in_memory(path, mode=mode, size_bytes=limit or self._memory_bytes, group=group):
                        raise VolumeUnusable(volume.name, _NO_MEMORY)
                    return path
                case HostPath() as source:
                    _check_host_path(volume.name, source)
                    return Path(source.path)
        except OSError as error:
            raise VolumeUnusable(volume.name, f"{error.filename}: {error.strerror}") from error

    def _keep_in_memory(self, path: Path, *, mode: int, size_bytes: int, group: int | None = None) -> bool:
        """Mount a file system in memory, unless one is there; False if we may not, or containers would not see it."""
        if path.is_mount():
            return True
        if self._means is SubPathMeans.NAMED:
            return False
        try:
            mount_tmpfs(path, mode=mode, size_bytes=size_bytes, group=group, holds_programs=True)
        except PermissionError:
            return False
        return True


def _make_writable(path: Path, *, group: int | None) -> None:
    """Make a directory for all users of a pod, once: a container may close it to others later.

    Source: kubelet 1.36 ``pkg/volume/emptydir/empty_dir.go``, ``setupDir``.
    """
    if path.exists():
        return
    new = path.with_name(f".{path.name}")
    new.mkdir(parents=True, exist_ok=True)
    new.chmod(_ANY_WRITES)
    if group is not None:
        os.chown(new, -1, group)
        new.chmod(_GROUP_WRITES)
    new.rename(path)


def _check_host_path(volume: str, source: HostPath) -> None:
    """Source: kubelet 1.36 ``pkg/volume/hostpath/host_path.go``, ``checkType``."""
    path, kind = source.path, source.type
    if kind is HostPathType.UNCHECKED:
        return
    if kind is HostPathType.DIRECTORY_OR_CREATE and not os.path.exists(path):
        make_directories(Path(path))
    if kind is HostPathType.FILE_OR_CREATE and not os.path.exists(path):
        Path(path).touch(mode=0o644)
    noun, is_kind = {
        HostPathType.DIRECTORY_OR_CREATE: ("directory", stat.S_ISDIR),
        HostPathType.DIRECTORY: ("directory", stat.S_ISDIR),
        HostPathType.FILE_OR_CREATE: ("file", stat.S_ISREG),
        HostPathType.FILE: ("file", stat.S_ISREG),
        HostPathType.SOCKET: ("socket file", stat.S_ISSOCK),
        HostPathType.CHAR_DEVICE: ("character device", stat.S_ISCHR),
        HostPathType.BLOCK_DEVICE: ("block device", stat.S_ISBLK),
    }[kind]
    if not os.path.exists(path) or not is_kind(os.stat(path).st_mode):
        raise VolumeUnusable(volume, f"hostPath type check failed: {path} is not a {noun}")
