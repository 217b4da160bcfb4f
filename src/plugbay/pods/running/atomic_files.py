"""The files of a volume, changed all at once, in the layout of a kubelet's ``AtomicWriter``.

The files lie in a directory that is named after the time. ``..data`` is a symbolic link to it, and each file or
directory on the top is a link through ``..data``: when that is replaced by another one, readers see all the new files.

Source: Kubernetes 1.36 ``pkg/volume/util/atomic_writer.go``, ``pkg/volume/volume_linux.go`` (``SetVolumeOwnership``).
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from plugbay.pods.running.projecting import Payload, ProjectedFile

_DATA: Final = "..data"
_NEW_DATA: Final = "..data_tmp"
_DIRECTORY_MODE: Final = 0o755
_GROUP_READS: Final = 0o440
_GROUP_ENTERS: Final = 0o2550


def write_files(directory: Path, files: Payload, *, now: datetime, group: int | None = None) -> None:
    """Make ``files`` the content of a volume, whatever an earlier call that was killed left there.

    Nothing is written when they are its content already. Blocks for as long as the disk takes.

    Args:
        directory: where the volume lies; it exists, and nobody else writes to it.
        group: owns all of it, and may read all of it.

    Raises:
        OSError: something cannot be written; the files before stay.
    """
    wanted = files if group is None else {path: _for_group(file) for path, file in files.items()}
    if group is not None:
        _give_directory(directory, group)
    if _content(directory / _DATA) != {path: (file.content, file.mode) for path, file in wanted.items()}:
        _replace(directory, wanted, now=now, group=group)
    _link(directory, {path.split("/")[0] for path in wanted})
    _sweep(directory)


def is_written(directory: Path) -> bool:
    """Whether a volume has a content, be it an empty one."""
    return (directory / _DATA).is_symlink()


def _for_group(file: ProjectedFile) -> ProjectedFile:
    return ProjectedFile(file.content, file.mode | _GROUP_READS, file.owner)


def _give_directory(directory: Path, group: int) -> None:
    os.chown(directory, -1, group)
    directory.chmod(stat.S_IMODE(directory.stat().st_mode) | _GROUP_ENTERS)


def _content(data: Path) -> dict[str, tuple[bytes, int]] | None:
    """The files below ``data`` and their modes; None if it cannot all be read, so that it has to be made anew."""
    found: dict[str, tuple[bytes, int]] = {}
    try:
        for parent, _, names in os.walk(data, onerror=_fail):
            for name in names:
                path = Path(parent, name)
                mode = path.lstat().st_mode
                if not stat.S_ISREG(mode):
                    return None
                found[str(path.relative_to(data))] = (path.read_bytes(), stat.S_IMODE(mode))
    except OSError:
        return None
    return found


def _fail(error: OSError) -> None:
    raise error


def _replace(directory: Path, files: Payload, *, now: datetime, group: int | None) -> None:
    made = Path(tempfile.mkdtemp(prefix=now.strftime("..%Y_%m_%d_%H_%M_%S."), dir=directory))
    try:
        made.chmod(_DIRECTORY_MODE)
        if group is not None:
            _give_directory(made, group)
        for name, file in files.items():
            path = made / name
            for parent in reversed(path.relative_to(made).parents[:-1]):
                _make_directory(made / parent, group)
            _write(path, file, group)
        new = directory / _NEW_DATA
        with suppress(FileNotFoundError):
            new.unlink()
        new.symlink_to(made.name)
        new.rename(directory / _DATA)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _make_directory(path: Path, group: int | None) -> None:
    if path.is_dir():
        return
    path.mkdir()
    path.chmod(_DIRECTORY_MODE)
    if group is not None:
        _give_directory(path, group)


def _write(path: Path, file: ProjectedFile, group: int | None) -> None:
    """Only the node's user may read it until its owner and mode are set."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as opened:
        opened.write(file.content)
        if file.owner is not None or group is not None:
            os.fchown(descriptor, -1 if file.owner is None else file.owner, -1 if group is None else group)
        os.fchmod(descriptor, file.mode)


def _link(directory: Path, names: set[str]) -> None:
    """Have a link on the top for each of ``names``, and for nothing else."""
    for entry in directory.iterdir():
        if entry.name not in names and entry.is_symlink() and not entry.name.startswith(".."):
            entry.unlink()
    for name in names:
        with suppress(FileExistsError):
            (directory / name).symlink_to(f"{_DATA}/{name}")


def _sweep(directory: Path) -> None:
    """Remove what was replaced, or was never finished."""
    kept = {_DATA, os.readlink(directory / _DATA)}
    for entry in directory.iterdir():
        if entry.name.startswith("..") and entry.name not in kept:
            if entry.is_symlink():
                entry.unlink()
            else:
                shutil.rmtree(entry, ignore_errors=True)
