"""Namespaces that outlive their processes, as files on which they are mounted.

Making or entering a namespace changes a thread for good, so a thread of its own does that and ends.

Source: Linux ``namespaces(7)``, ``ip-netns(8)``, ``ioctl_ns(2)``, ``mount_namespaces(7)``.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Final, TypeVar

from plugbay.errors import NamespaceUnusable
from plugbay.kernel.syscalls import system_call

_T = TypeVar("_T")

_MS_BIND: Final = 4096
_MNT_DETACH: Final = 2
_NS_GET_NSTYPE: Final = 0xB703


class NamespaceKind(Enum):
    """The kind of a namespace; the value is the flag of ``clone(2)``."""

    NETWORK = 0x40000000
    IPC = 0x08000000
    UTS = 0x04000000

    @property
    def entry(self) -> str:
        """The name of the namespace below ``/proc/PID/ns``."""
        return "net" if self is NamespaceKind.NETWORK else self.name.lower()

    def __str__(self) -> str:
        return "network" if self is NamespaceKind.NETWORK else self.name


def make_namespace(
    kind: NamespaceKind, path: Path, *, proc_root: Path, furnish: Callable[[], object] = lambda: None
) -> None:
    """Make a namespace that is entered at ``path``, whose directory is made if need be.

    An empty file is taken over: a process that was killed while it made the namespace left it.

    Args:
        furnish: called inside the namespace, before any other process can enter.

    Raises:
        NamespaceUnusable: something else is there, or this process may not; nothing was changed.
    """

    def make() -> None:
        system_call("unshare", kind.value)
        furnish()
        own = os.fsencode(proc_root / "thread-self/ns" / kind.entry)
        system_call("mount", own, os.fsencode(path), b"none", _MS_BIND, None)

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o444))
        if is_namespace(kind, path):
            raise NamespaceUnusable(str(path), "exists already")
        if not _is_empty_file(path):
            raise NamespaceUnusable(str(path), "is a file that is not a namespace")
    except OSError as error:
        raise NamespaceUnusable(str(path), f"cannot be made: {error.strerror}") from error
    try:
        _in_thread(make)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise NamespaceUnusable(str(path), f"cannot be made: {error.strerror}") from error


def remove_namespace(kind: NamespaceKind, path: Path) -> None:
    """Remove a namespace; it ends when its last process has ended. A namespace that is gone is not an error.

    Never call it for a path that is not a namespace of ours: removing a mount point detaches the mount in every other
    mount namespace as well. Hence only a namespace or an empty file is removed, and never a directory.

    Raises:
        NamespaceUnusable: something else is there, or we may not.
    """
    try:
        # More than once, because another program may have mounted it again.
        while is_namespace(kind, path):
            system_call("umount2", os.fsencode(path), _MNT_DETACH)
        if not _is_empty_file(path):
            raise NamespaceUnusable(str(path), f"is not a {kind} namespace")
        path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise NamespaceUnusable(str(path), f"cannot be removed: {error.strerror}") from error


def is_namespace(kind: NamespaceKind, path: Path) -> bool:
    """Whether a namespace of that kind can be entered at ``path``.

    Raises:
        OSError: it cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return fcntl.ioctl(descriptor, _NS_GET_NSTYPE) == kind.value
    except OSError as error:
        if error.errno in (errno.ENOTTY, errno.EINVAL, errno.EOPNOTSUPP):
            return False
        raise
    finally:
        os.close(descriptor)


def in_namespace(kind: NamespaceKind, path: Path, function: Callable[[], _T]) -> _T:
    """Call ``function`` inside a namespace, in a thread of its own; returns what it returns.

    Raises:
        NamespaceUnusable: it cannot be entered.
        Exception: whatever ``function`` raises.
    """

    def enter() -> _T:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                system_call("setns", descriptor, kind.value)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise NamespaceUnusable(str(path), f"cannot be entered: {error.strerror}") from error
        return function()

    return _in_thread(enter)


def _is_empty_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and path.stat().st_size == 0


def _in_thread(function: Callable[[], _T]) -> _T:
    outcome: list[_T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(function())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, name="namespace")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]
