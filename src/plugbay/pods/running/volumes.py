"""Volumes of pods on the host: emptyDir directories are made and removed, host paths checked, sub-paths placed."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from plugbay.errors import VolumeUnusable
from plugbay.kernel.files import make_directories, make_private
from plugbay.kernel.mounts import mounted
from plugbay.model.edits import Mount
from plugbay.model.ids import PodUid
from plugbay.model.pods import Container, EmptyDir, HostPath, HostPathType, Pod, Volume, VolumeMount
from plugbay.pods.running.sub_paths import SubPathMeans, SubPaths

_PROC: Final = Path("/proc")


class Volumes:
    """The volumes of pods below ``pods_dir``, laid out as by a kubelet. Every method may wait for the disk.

    Args:
        means: how containers are given parts of volumes.
    """

    def __init__(self, pods_dir: Path, means: SubPathMeans) -> None:
        self._pods_dir = pods_dir
        self._sub_paths = SubPaths(pods_dir, means)

    def prepare(self, pod: Pod) -> dict[str, Path]:
        """Make the volumes and tell where each lies; harmless to repeat.

        Raises:
            VolumeUnusable: a host path is not what the pod says, or something cannot be made.
        """
        group = pod.spec.security.fs_group
        return {volume.name: self._prepare(pod.uid, volume, group=group) for volume in pod.spec.volumes}

    def mounts(self, pod: Pod, container: Container, volumes: Mapping[str, Path]) -> tuple[Mount, ...]:
        """The mounts of ``container``, for one start of it. A sub-path that is missing becomes a directory.

        Args:
            volumes: what `prepare` returned.

        Raises:
            VolumeUnusable: a sub-path leads out of its volume, or cannot be made.
        """
        return tuple(
            Mount(
                container_path=each.mount_path,
                host_path=str(self._place(pod, container, each, volumes[each.name])),
                read_only=each.read_only,
            )
            for each in container.volume_mounts
        )

    def remove(self, pod: PodUid) -> None:
        """Take away what `prepare` and `mounts` made, with its contents.

        Raises:
            VolumeUnusable: a sub-path stays mounted, so that nothing may be deleted: it shows what is not ours.
        """
        what, directory = f"volumes of pod {pod}", self._pods_dir / pod
        try:
            self._sub_paths.clear(pod)
            left = [path for path, _ in mounted(proc_root=_PROC) if path.is_relative_to(os.path.realpath(directory))]
        except OSError as error:
            problem = f"cannot unmount its sub-paths: {error.filename}: {error.strerror}"
            raise VolumeUnusable(what, problem) from error
        if left:
            raise VolumeUnusable(what, f"cannot be deleted: {left[0]} is mounted there; unmount it")
        shutil.rmtree(directory, ignore_errors=True)

    def _place(self, pod: Pod, container: Container, mount: VolumeMount, root: Path) -> Path:
        return self._sub_paths.place(pod, container, mount, root) if mount.sub_path else root

    def _prepare(self, pod: PodUid, volume: Volume, *, group: int | None) -> Path:
        try:
            match volume.source:
                case EmptyDir():
                    path = self._pods_dir / pod / "volumes" / "kubernetes.io~empty-dir" / volume.name
                    make_private(self._pods_dir, self._pods_dir / pod)
                    path.mkdir(parents=True, exist_ok=True)
                    path.chmod(0o777)  # whatever user the containers run as, as a kubelet has it
                    if group is not None:
                        os.chown(path, -1, group)
                        path.chmod(0o2777)  # what is made in it belongs to the group, too
                    return path
                case HostPath() as source:
                    _check_host_path(volume.name, source)
                    return Path(source.path)
        except OSError as error:
            raise VolumeUnusable(volume.name, f"{error.filename}: {error.strerror}") from error


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
