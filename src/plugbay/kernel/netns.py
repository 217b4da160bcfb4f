"""Network namespaces that outlive their processes, as files on which they are mounted.

Entering one changes a thread, for good; so everything here runs in threads that end with it.

Source: Linux ``namespaces(7)``, ``ip-netns(8)``, ``ioctl_ns(2)``, ``mount_namespaces(7)``.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from plugbay.errors import NamespaceUnusable

_T = TypeVar("_T")

_CLONE_NEWNET: Final = 0x40000000
_MS_BIND: Final = 4096
_MNT_DETACH: Final = 2
_NS_GET_NSTYPE: Final = 0xB703

# os.unshare and os.setns come with Python 3.12.
_libc: Final = ctypes.CDLL(None, use_errno=True)


def make_netns(path: Path, *, proc_root: Path) -> None:
    """Make a network namespace, in which only ``lo`` is and that is down; its directory is made if need be.

    An empty file is taken over: it is what is left of a make that was killed.

    Raises:
        NamespaceUnusable: something else is there, or we may not; nothing was changed.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o444))
        if is_netns(path):
            raise NamespaceUnusable(str(path), "exists already")
        if not _is_empty_file(path):
            raise NamespaceUnusable(str(path), "is a file of something else")
    except OSError as error:
        raise NamespaceUnusable(str(path), f"cannot be made: {error.strerror}") from error
    try:
        _in_thread(lambda: _mount_new(path, proc_root))
    except OSError as error:
        path.unlink(missing_ok=True)
        raise NamespaceUnusable(str(path), f"cannot be made: {error.strerror}") from error


def remove_netns(path: Path) -> None:
    """Remove a network namespace; what is in it ends when its last process has ended. One that is gone is no error.

    Never call it for what is no namespace of ours: removing a mount point detaches the mount in every other mount
    namespace as well. Hence only a namespace or an empty file is removed, and never a directory.

    Raises:
        NamespaceUnusable: something else is there, or we may not.
    """
    try:
        # More than once where somebody mounted it again.
        while is_netns(path):
            _call("umount2", os.fsencode(path), _MNT_DETACH)
        if not _is_empty_file(path):
            raise NamespaceUnusable(str(path), "is no network namespace")
        path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise NamespaceUnusable(str(path), f"cannot be removed: {error.strerror}") from error


def is_netns(path: Path) -> bool:
    """Whether a network namespace can be entered at ``path``.

    Raises:
        OSError: it cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return fcntl.ioctl(descriptor, _NS_GET_NSTYPE) == _CLONE_NEWNET
    except OSError as error:
        if error.errno in (errno.ENOTTY, errno.EINVAL, errno.EOPNOTSUPP):
            return False
        raise
    finally:
        os.close(descriptor)


def in_netns(path: Path, function: Callable[[], _T]) -> _T:
    """Call ``function`` inside a namespace, in a thread of its own; returns what it returns.

    Raises:
        NamespaceUnusable: it cannot be entered.
        Exception: whatever ``function`` raises.
    """

    def enter() -> _T:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                _call("setns", descriptor, _CLONE_NEWNET)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise NamespaceUnusable(str(path), f"cannot be entered: {error.strerror}") from error
        return function()

    return _in_thread(enter)


def _mount_new(path: Path, proc_root: Path) -> None:
    _call("unshare", _CLONE_NEWNET)
    own = os.fsencode(proc_root / "thread-self/ns/net")
    _call("mount", own, os.fsencode(path), b"none", _MS_BIND, None)


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

    thread = threading.Thread(target=run, name="netns")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


def _call(name: str, *args: object) -> None:
    """A system call by its C name.

    Raises:
        OSError: it failed.
    """
    if _libc[name](*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
