"""Volumes of pods on the host: emptyDir directories made and taken away, host paths checked."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from plugbay.errors import VolumeUnusable
from plugbay.model.edits import Mount
from plugbay.model.ids import PodUid
from plugbay.model.pods import Container, EmptyDir, HostPath, HostPathType, Pod, Volume


class Volumes:
    """Below ``pods_dir``, laid out as a kubelet does. Every method may wait for the disk."""

    def __init__(self, pods_dir: Path) -> None:
        self._pods_dir = pods_dir

    def prepare(self, pod: Pod) -> dict[str, Path]:
        """Where each volume lies; harmless to repeat.

        Raises:
            VolumeUnusable: a host path is not what the pod says, or something cannot be made.
        """
        group = pod.spec.security.fs_group
        return {volume.name: self._prepare(pod.uid, volume, group=group) for volume in pod.spec.volumes}

    def remove(self, pod: PodUid) -> None:
        """Take away what `prepare` made, with its contents."""
        shutil.rmtree(self._pods_dir / pod, ignore_errors=True)

    def _prepare(self, pod: PodUid, volume: Volume, *, group: int | None) -> Path:
        try:
            match volume.source:
                case EmptyDir():
                    path = self._pods_dir / pod / "volumes" / "kubernetes.io~empty-dir" / volume.name
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


def container_mounts(container: Container, volumes: Mapping[str, Path]) -> tuple[Mount, ...]:
    """The mounts of ``container``. A sub-path that is missing becomes a directory.

    Raises:
        VolumeUnusable: a sub-path leads out of its volume.
    """
    mounts = []
    for mount in container.volume_mounts:
        path = volumes[mount.name]
        if mount.sub_path:
            path = _inside(mount.name, path, mount.sub_path)
        mounts.append(Mount(path, container_path=mount.mount_path, read_only=mount.read_only))
    return tuple(mounts)


def _inside(volume: str, root: Path, sub_path: str) -> Path:
    """``sub_path`` of a volume, symbolic links followed: the volume's content is in the pod's hands."""
    root = root.resolve()
    path = (root / sub_path).resolve()
    if not path.is_relative_to(root):
        raise VolumeUnusable(volume, f"subPath {sub_path} leads out of the volume")
    try:
        if not path.exists():
            path.mkdir(parents=True)
    except OSError as error:
        raise VolumeUnusable(volume, f"subPath {sub_path}: {error.strerror}") from error
    return path


def _check_host_path(volume: str, source: HostPath) -> None:
    """Source: kubelet 1.36 ``pkg/volume/hostpath/host_path.go``, ``checkType``."""
    path, kind = source.path, source.type
    if kind is HostPathType.UNCHECKED:
        return
    if kind is HostPathType.DIRECTORY_OR_CREATE and not os.path.exists(path):
        Path(path).mkdir(parents=True, mode=0o755)
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
