"""The spec file of one resource. Its name tells the resource, and a lock on it tells that its process lives.

A file of ours that no process holds is an earlier run's. Files of others are never touched. All of it blocks.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from plugbay.cdi.directories import UNFINISHED_END, read_file, replacing, spec_name, spec_paths
from plugbay.cdi.names import CdiKind
from plugbay.cdi.spec import Spec
from plugbay.cdi.text import Format, write_spec
from plugbay.errors import InvalidCdiSpec, PathUnusable
from plugbay.kernel.write_locks import is_locked, lock
from plugbay.model.ids import ResourceName, is_extended_resource
from plugbay.sdk.cdi.spec_turns import SpecTurns

_OURS: Final = re.compile(r".+_plugbay\.(?P<domain>[^_]+)_(?P<type>.+)\.json")
_UNFINISHED: Final = "spec.plugbay."
"""The start of the name of a file of ours until it is whole."""


class PluginSpecFile:
    """One process's file in ``directory``; it need not exist yet.

    Attributes:
        path: ``VENDOR-CLASS_plugbay.DOMAIN_TYPE.json``.
        turns: for which `write` waits.
    """

    def __init__(self, directory: Path, kind: CdiKind, resource: ResourceName) -> None:
        name = spec_name(kind.vendor, kind.device_class, transient_id=f"plugbay.{resource}")
        self.path = directory / f"{name}{Format.JSON.value}"
        self.turns = SpecTurns(directory)
        self._held = -1
        self._text = ""
        self._has_written = False

    def load(self) -> Spec | None:
        """The spec that an earlier run, or another process, has left there; None if it is useless."""
        try:
            return read_file(self.path)
        except InvalidCdiSpec:
            return None

    def write(self, spec: Spec) -> bool:
        """Make the file hold ``spec``; returns whether it had to be written.

        A reader sees the old file or the new one, whole. The first time the file is taken over from the process that
        has it; later a process that has taken it over keeps it, as it is the newer one.

        Raises:
            PathUnusable: it cannot be written; nothing was changed.
        """
        text = write_spec(spec, Format.JSON)
        if text == self._text and self.is_intact():
            return False
        try:
            self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            with self.turns.turn():  # no process takes it over between the question and the answer
                if self._has_written and self.is_another_process():
                    return False
                self._replace(text)
        except OSError as error:
            raise PathUnusable(str(self.path), f"cannot be written: {error.strerror}") from error
        self._text = text
        self._has_written = True
        return True

    def is_intact(self) -> bool:
        """Whether the file is there as we wrote it."""
        if not self._is_ours():
            return False
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return self.path.read_text(encoding="utf-8") == self._text
        return False

    def is_another_process(self) -> bool:
        """Whether another process that lives has taken the file over, as in a rolling update."""
        return not self._is_ours() and _is_held(self.path)

    def remove(self) -> bool:
        """Remove it, unless another process has taken it over; returns whether it was there, and ours.

        Raises:
            PathUnusable: it cannot be removed.
        """
        is_ours = self._is_ours()
        if is_ours:
            remove_file(self.path)
        self._let_go()
        self._text = ""
        return is_ours

    def close(self) -> None:
        """Leave the file as it is, and let go of it; a later `write` takes it over again."""
        self._let_go()
        self._has_written = False

    def _replace(self, text: str) -> None:
        held = -1
        try:
            with replacing(self.path, beginning=_UNFINISHED) as file:
                held = os.dup(file.fileno())
                lock(held)  # before it has its name: no process ever finds ours unheld
                file.write(text)
        except BaseException:
            if held >= 0:
                os.close(held)
            raise
        self._let_go()
        self._held = held

    def _let_go(self) -> None:
        if self._held >= 0:
            os.close(self._held)
        self._held = -1

    def _is_ours(self) -> bool:
        if self._held < 0:
            return False
        with contextlib.suppress(OSError):
            return os.path.samestat(os.fstat(self._held), os.stat(self.path, follow_symlinks=False))
        return False


def left_files(directory: Path) -> Iterator[tuple[Path, ResourceName]]:
    """Files of processes of ours that have ended, each with its resource.

    Raises:
        PathUnusable: the directory cannot be listed.
    """
    yield from ((path, resource) for path, resource, is_held in our_files(directory) if not is_held)


def our_files(directory: Path) -> Iterator[tuple[Path, ResourceName, bool]]:
    """Files of processes of ours, each with its resource, and whether the process lives.

    Raises:
        PathUnusable: the directory cannot be listed.
    """
    for path in spec_paths(directory):
        match = _OURS.fullmatch(path.name)
        resource = f"{match['domain']}/{match['type']}" if match else ""
        if is_extended_resource(resource) and path.is_file() and not path.is_symlink():
            yield path, ResourceName(resource), _is_held(path)


def remove_file(path: Path) -> None:
    """Remove a file, if it is there.

    Raises:
        PathUnusable: it cannot be removed.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise PathUnusable(str(path), f"cannot be removed: {error.strerror}") from error


def remove_unfinished(directory: Path, turns: SpecTurns) -> None:
    """Remove what processes of ours were writing when they were killed.

    Raises:
        PathUnusable: the directory cannot be changed.
    """
    try:
        if _unfinished(directory):
            with turns.turn():  # no process is writing
                for path in _unfinished(directory):
                    path.unlink(missing_ok=True)
    except FileNotFoundError:
        return
    except OSError as error:
        raise PathUnusable(str(directory), f"cannot be tidied: {error.strerror}") from error


def _unfinished(directory: Path) -> list[Path]:
    names = os.listdir(directory)
    return [directory / each for each in names if each.startswith(_UNFINISHED) and each.endswith(UNFINISHED_END)]


def _is_held(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return is_locked(descriptor)
    finally:
        os.close(descriptor)
