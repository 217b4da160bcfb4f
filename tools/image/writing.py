"""Where an image goes: all is written beside its place, and put there when it is whole."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from tools.image import layers, lock, oci
from tools.image.build import Built
from tools.image.problems import ImageFailed
from tools.image.settings import title
from tools.image.tree import write


def check_rootfs(directory: Path, processors: int) -> None:
    """See to it before the work that a file system can be written there.

    Raises:
        ImageFailed: it cannot.
    """
    if processors != 1:
        raise ImageFailed("--rootfs is the file system of one processor; name it with --arch")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ImageFailed(f"--rootfs {directory} is not an empty directory")
    if not directory.absolute().parent.is_dir():
        raise ImageFailed(f"--rootfs {directory} is in a directory that does not exist")


def write_rootfs(built: Built, directory: Path) -> None:
    """The file system of an image."""
    beside = directory.absolute().with_name(f".{directory.name}.making")
    beside.mkdir()
    try:
        write(built.tree, beside)
        beside.rename(directory)  # which may be empty
    except OSError:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def write_image(built: Sequence[Built], made_of: lock.Lock, name: str, out: Path, work: Path) -> str:
    """Layout, archive, SBOMs and lock, in ``out``, where ``work`` is an empty directory; returns the digest."""
    stem = title(made_of.variant)
    layout, digest = oci.layout([each.image for each in built], name)
    (work / stem).mkdir()
    write(layout, work / stem)
    files = {f"{stem}.tar": layers.archive(layout), f"{stem}.lock.json": lock.encode(made_of)}
    files |= {f"{stem}.{each.image.architecture}.spdx.json": each.sbom for each in built}
    for file, content in files.items():
        (work / file).write_bytes(content)
        (work / file).chmod(0o644)
    if (out / stem).exists():
        (out / stem).rename(work / "before")
    (work / stem).rename(out / stem)
    for file in files:
        (work / file).rename(out / file)
    return digest
