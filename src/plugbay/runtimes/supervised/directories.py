"""Directories of instances: they are made whole or not at all, read, and taken away.

One node owns the state directory. Entries whose name begins with a dot are being made or taken away, and what an
earlier node left of them is swept.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from plugbay.errors import ContainerStartError, InstanceNotFound, InstanceUnreadable, PathUnusable
from plugbay.kernel.files import sync_directory
from plugbay.kernel.processes import ProcessIdentity
from plugbay.runtimes.port import ContainerId, ContainerSpec
from plugbay.runtimes.supervised.confinement import Launch
from plugbay.runtimes.supervised.instance import Instance
from plugbay.runtimes.supervised.launch import encode_launch
from plugbay.runtimes.supervised.records import (
    RESERVED,
    ProcessRecord,
    container_id,
    decode_exit,
    decode_process,
    decode_spec,
    encode_spec,
    parse_marker,
    stand_in,
)

logger = logging.getLogger(__name__)

_GUEST: Final = re.compile(r"guest-(\d+)-(\d+)", re.ASCII)
"""The name of a wrapper's file for a command beside the container; see `exec_server`."""
_RESERVED_BYTES: Final = 512
"""An exit record is never longer."""
_Record = TypeVar("_Record")


class InstanceDirectories:
    """The directories of all instances of one runtime. Every method may wait for the disk."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._mark = f".{secrets.token_hex(4)}-"
        """Begins the names of directories in transit that are ours."""
        self._reported: set[Path] = set()

    def path(self, container: ContainerId) -> Path:
        """The directory in which an instance is or will be.

        Raises:
            InstanceNotFound: the text is not the ID of any instance.
        """
        if not container or container.startswith(".") or "/" in container:
            raise InstanceNotFound(container)
        return self._state_dir / container

    def create(self, spec: ContainerSpec, launch: Launch, *, created_at: datetime) -> ContainerId:
        """Make an instance with its ``spec.json``, durably, and with the files that it is launched with.

        Raises:
            ContainerStartError: it exists, or cannot be written.
        """
        container = container_id(spec)
        encoded = encode_launch(launch.argv, working_dir=launch.working_dir, env=launch.env)
        record = encode_spec(spec, env=launch.env, working_dir=launch.working_dir, created_at=created_at)
        making = self._state_dir / f"{self._mark}new-{container}"
        shutil.rmtree(making, ignore_errors=True)  # left by a try that had no descriptors to remove it with
        try:
            self._state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            making.mkdir(mode=0o700)
            (making / "launch").write_bytes(encoded)
            _furnish(making, launch)
            (making / "log").touch(mode=0o640)
            (making / RESERVED).write_bytes(b" " * _RESERVED_BYTES)
            _write_durably(making / "spec.json", record)
            _rename(making, self.path(container))
        except FileExistsError as error:
            raise ContainerStartError("CreateContainerError", f"name {container} is reserved") from error
        except (OSError, UnicodeEncodeError) as error:
            raise ContainerStartError("CreateContainerError", f"cannot record the container: {error}") from error
        finally:
            shutil.rmtree(making, ignore_errors=True)
        return container

    def read(self, container: ContainerId) -> Instance:
        """All records of one instance. Where a record is damaged or missing, the others and the file names replace it.

        Raises:
            InstanceNotFound: the directory does not exist.
            InstanceUnreadable: a record may be there and cannot be read.
        """
        directory = self.path(container)
        try:
            return self._read(container, directory)
        except OSError as error:
            if not _is_there(directory):
                raise InstanceNotFound(container) from error
            raise InstanceUnreadable(container, f"cannot read {error.filename}: {error.strerror}") from error

    def _read(self, container: ContainerId, directory: Path) -> Instance:
        # The exit before the process: read the other way round, an instance could seem to have ended without having
        # begun. The names last: an instance that has a process has the file that is named after it.
        damage: list[Path] = []
        spec = self._decode(directory / "spec.json", decode_spec, damage)
        exit_record = self._decode(directory / "exit.json", decode_exit, damage)
        try:
            process = self._decode(directory / "process.json", decode_process, damage) or _marked(directory)
        except OSError:
            if (process := _marked(directory)) is None:
                raise
        if spec is None:
            damage.append(directory / "spec.json")
            spec = stand_in(container, created_at=datetime.fromtimestamp(directory.stat().st_mtime, UTC))
        if spec is None:
            raise InstanceUnreadable(container, f"{directory} is not the directory of a container")
        return Instance(container, spec, process, exit_record, is_damaged=bool(damage))

    def _decode(self, path: Path, decode: Callable[[bytes], _Record], damage: list[Path]) -> _Record | None:
        try:
            return decode(path.read_bytes())
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            damage.append(path)
            if path not in self._reported:
                self._reported.add(path)
                logger.warning("%s is damaged: %s; the container is identified by its other records", path, error)
            return None

    def guests(self, container: ContainerId) -> list[ProcessIdentity]:
        """The commands beside an instance whose process may still run; a reused process number does not count."""
        try:
            names = os.listdir(self.path(container))
        except FileNotFoundError:
            return []
        records = (_GUEST.fullmatch(name) for name in names)
        return [ProcessIdentity(int(each[1]), start_ticks=int(each[2])) for each in records if each]

    def read_all(self) -> tuple[list[Instance], list[ContainerId]]:
        """Every instance, oldest first, and those that cannot be read.

        What an earlier node left half made or half removed is swept.

        Raises:
            PathUnusable: the directory of all instances is not a directory, or is closed to us.
        """
        try:
            names = os.listdir(self._state_dir)
        except FileNotFoundError:
            return [], []
        except OSError as error:
            raise PathUnusable(str(self._state_dir), f"cannot list containers: {error.strerror}") from error
        instances, in_doubt = [], []
        for name in names:
            if name.startswith("."):
                if not name.startswith(self._mark):
                    shutil.rmtree(self._state_dir / name, ignore_errors=True)
                continue
            try:
                instances.append(self.read(ContainerId(name)))
            except InstanceNotFound:
                continue
            except InstanceUnreadable as error:
                logger.warning("%s; the container counts as running until it can be read", error)
                in_doubt.append(ContainerId(name))
        return sorted(instances, key=lambda instance: (instance.spec.created_at, instance.id)), in_doubt

    def remove(self, container: ContainerId) -> None:
        """Take an instance away with all its files; nothing happens when there is none."""
        leaving = self._state_dir / f"{self._mark}old-{secrets.token_hex(4)}-{container}"
        try:
            self.path(container).rename(leaving)
        except FileNotFoundError:
            return
        shutil.rmtree(leaving, ignore_errors=True)


def _furnish(making: Path, launch: Launch) -> None:
    for name in launch.directories:
        _make_directory(making, name)
    for name, content in launch.files.items():
        _make_directory(making, os.path.dirname(name))
        (making / name).write_bytes(content)
    for name in launch.open_files:
        (making / name).touch()
        (making / name).chmod(0o666)
    for name, target in launch.links.items():
        _make_directory(making, os.path.dirname(name))
        (making / name).symlink_to(target)


def _make_directory(making: Path, name: str) -> None:
    """A directory and those above it, open to the users in the container whatever the umask."""
    for part in Path(name).parts:
        making /= part
        if not making.exists():
            making.mkdir()
            making.chmod(0o755)


def _write_durably(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _rename(source: Path, target: Path) -> None:
    try:
        source.rename(target)
    except OSError as error:
        if target.exists():
            raise FileExistsError(error.errno, "exists", str(target)) from error
        raise
    try:
        sync_directory(target.parent)
    except OSError:
        target.rename(source)  # so that the start which made it fails
        raise


def _is_there(directory: Path) -> bool:
    """Whether the directory exists; False only if that is certain."""
    try:
        directory.stat()
    except FileNotFoundError:
        return False
    except OSError:
        pass
    return True


def _marked(directory: Path) -> ProcessRecord | None:
    for name in os.listdir(directory):
        if name.startswith("ran_"):
            with suppress(FileNotFoundError):  # a wrapper that gives up removes it
                return parse_marker(name, started_at=(directory / name).stat().st_mtime)
    return None
