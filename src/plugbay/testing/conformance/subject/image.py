"""A container image in a file, unpacked: its root file system, and what it says is to be run.

Read are archives that ``docker save`` and ``podman save`` write, OCI archives and OCI layouts in a directory.

Source: OCI image-spec 1.1 ``image-layout.md``, ``manifest.md``, ``config.md``, ``layer.md``.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from plugbay.errors import PathUnusable
from plugbay.values import dataclass

_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x", "riscv64": "riscv64"}
_MAX_DOCUMENT_BYTES: Final = 4 << 20

Blob = Callable[[str], IO[bytes]]
"""Opens a file of the image by its name there."""


@dataclass(frozen=True, slots=True)
class UnpackedImage:
    """An image that can be run.

    Attributes:
        rootfs: its root file system.
        arguments: its entrypoint; ``defaults`` follow unless others are given.
        environment: its variables, as ``NAME=VALUE``.
        user: the user and group to run as, as numbers.
    """

    rootfs: Path
    arguments: tuple[str, ...]
    defaults: tuple[str, ...]
    environment: tuple[str, ...]
    directory: str
    user: tuple[int, int]


def unpack_image(source: Path, rootfs: Path) -> UnpackedImage:
    """Unpack the image in ``source`` into the empty directory ``rootfs``.

    Raises:
        PathUnusable: it is not an image, or one of another machine, or holds what cannot be unpacked.
    """
    try:
        with _opened(source) as blob:
            config_name, layers = _parts(blob, source)
            config = _document(blob, config_name).get("config") or {}
            for layer in layers:
                with blob(layer) as packed:
                    _unpack_layer(packed, rootfs)
            user = _user(config.get("User") or "", rootfs)
    except tarfile.ReadError as error:  # its text is about compressions
        problem = "it is not an archive, or a layer of it is not, or it is cut off"
        raise PathUnusable(str(source), f"is not an image that can be unpacked: {problem}") from error
    except (OSError, tarfile.TarError, EOFError, KeyError, ValueError, TypeError, AttributeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise PathUnusable(str(source), f"is not an image that can be unpacked: {reason}") from error
    return UnpackedImage(
        rootfs,
        tuple(config.get("Entrypoint") or ()),
        tuple(config.get("Cmd") or ()),
        tuple(config.get("Env") or ()),
        config.get("WorkingDir") or "/",
        user,
    )


@contextmanager
def _opened(source: Path) -> Iterator[Blob]:
    if source.is_dir():
        yield lambda name: (source / name).open("rb")
        return
    with tarfile.open(source) as archive:

        def member(name: str) -> IO[bytes]:
            found = archive.extractfile(name)
            if found is None:
                raise ValueError(f"{name} is not a file in it")
            return found

        yield member


def _parts(blob: Blob, source: Path) -> tuple[str, list[str]]:
    """The names of the configuration and of the layers, lowest first."""
    try:
        index = _document(blob, "index.json")
    except (KeyError, FileNotFoundError):
        return _docker_parts(blob)
    manifest = _document(blob, _blob_name(_chosen(index["manifests"], source)))
    if "manifests" in manifest:  # an index in an index: one for each machine
        manifest = _document(blob, _blob_name(_chosen(manifest["manifests"], source)))
    return _blob_name(manifest["config"]), [_blob_name(each) for each in manifest["layers"]]


def _docker_parts(blob: Blob) -> tuple[str, list[str]]:
    try:
        manifest = _document(blob, "manifest.json")[0]
    except (KeyError, FileNotFoundError):
        raise ValueError("it has neither index.json nor manifest.json") from None
    return manifest["Config"], manifest["Layers"]


def _chosen(descriptors: list[dict[str, Any]], source: Path) -> dict[str, Any]:
    wanted = _MACHINES.get(platform.machine(), platform.machine())
    for each in descriptors:
        machine = each.get("platform") or {}
        if machine.get("architecture", wanted) == wanted and machine.get("os", "linux") == "linux":
            return each
    raise PathUnusable(str(source), f"has no image for linux/{wanted}")


def _blob_name(descriptor: dict[str, Any]) -> str:
    algorithm, _, digest = descriptor["digest"].partition(":")
    if not algorithm.isalnum() or not digest.isalnum():
        raise ValueError(f"{descriptor['digest']!r} is not a digest")
    return f"blobs/{algorithm}/{digest}"


def _document(blob: Blob, name: str) -> Any:
    with blob(name) as file:
        return json.loads(file.read(_MAX_DOCUMENT_BYTES))


def _unpack_layer(packed: IO[bytes], rootfs: Path) -> None:
    with tarfile.open(fileobj=packed, mode="r:*") as layer:
        for member in layer:
            name = PurePosixPath(member.name)
            target = rootfs / str(name).lstrip("/")
            if not target.parent.resolve().is_relative_to(rootfs.resolve()):
                raise ValueError(f"a layer writes outside the image: {member.name}")
            if name.name == _OPAQUE:
                for entry in target.parent.iterdir() if target.parent.is_dir() else ():
                    _remove(entry)
            elif name.name.startswith(_WHITEOUT):
                _remove(target.with_name(name.name.removeprefix(_WHITEOUT)))
            elif not member.isdev():  # the container gets the host's /dev
                if not (member.isdir() and target.is_dir() and not target.is_symlink()) and target != rootfs:
                    _remove(target)
                layer.extract(member, rootfs, numeric_owner=True, filter="tar")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _user(text: str, rootfs: Path) -> tuple[int, int]:
    """The numbers of ``user[:group]``; names are those of the image's files."""
    user, _, group = text.partition(":")
    uid, gid = _number(user, rootfs / "etc/passwd") if user else (0, 0)
    return uid, _number(group, rootfs / "etc/group")[0] if group else gid


def _number(name: str, file: Path) -> tuple[int, int]:
    """The number of a user and of its group, or of a group."""
    if name.isdigit():
        return int(name), 0
    if not file.resolve().is_relative_to(file.parents[1].resolve()) or not os.path.isfile(file):
        raise ValueError(f"the image does not say which number {name} has")
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        fields = line.split(":")
        if fields[0] == name and len(fields) > 3:
            return int(fields[2]), int(fields[3]) if fields[3].isdigit() else 0
    raise ValueError(f"the image has no user or group {name}")
