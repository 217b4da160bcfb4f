"""Taking a root for ourselves, and never one that another program serves or another user can change."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path
from typing import Final

from plugbay.errors import KubeletIsLive, PathUnusable, RootInUse
from plugbay.kernel.files import make_directories, make_private
from plugbay.node.config import NodeConfig
from plugbay.wire.sockets import check_socket_path

_PROBE_TIMEOUT_S: Final = 1.0
_ROOT: Final = 0o750
"""A kubelet's root has it too. Source: kubelet 1.36 ``kubelet.go``, ``setupDataDirs``."""
_WRITE_OF_OTHERS: Final = 0o022


def take_root(config: NodeConfig) -> int:
    """Lock the root; returns the descriptor that holds the lock. Nothing is written before all checks have passed.

    The lock ends with the descriptor, and so with our process, however that ends. Its file stays: removing it would
    let two nodes lock two files of one name. Waits for the disk.

    Raises:
        PathTooLong: a unix socket below the root could not be bound.
        PathUnusable: the root is not a directory, closed to us, or open to another user's changes.
        RootInUse: another node holds it.
        KubeletIsLive: a process answers where plugins register, and it is not a node of ours.
    """
    check_socket_path(config.kubelet_paths.registration_socket)
    check_socket_path(config.control_socket)
    lock = -1
    try:
        _check_owner(config.root)
        lock = _open_existing(config.lock)
        if lock >= 0:
            _take(lock, config)
        # Only now: at the root of another node of ours something answers, too.
        _refuse_live_kubelet(config.kubelet_paths.registration_socket)
        if lock < 0:
            _make(config.root)
            lock = os.open(config.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            _take(lock, config)
        make_private(config.pods)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:
        _close(lock)
        raise PathUnusable(str(config.root), _problem(error)) from error
    except BaseException:
        _close(lock)
        raise
    return lock


def _make(root: Path) -> None:
    if not root.exists():
        make_directories(root.parent)
        root.mkdir(mode=_ROOT)
        root.chmod(_ROOT)  # under any umask


def _check_owner(root: Path) -> None:
    """Refuse a root in which another user decides what runs: pods of a store there would run with our rights.

    Raises:
        PathUnusable: another user owns it or may write to it.
    """
    for found in (root.lstat(), root.stat()) if root.exists() else ():
        if found.st_uid not in (0, os.geteuid()):
            problem = f"belongs to another user (uid {found.st_uid}), who could run pods as you; take another root"
            raise PathUnusable(str(root), problem)
    if root.is_dir() and root.stat().st_mode & _WRITE_OF_OTHERS:
        problem = "can be written by other users, who could run pods as you; run chmod go-w on it, or take another root"
        raise PathUnusable(str(root), problem)


def _open_existing(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return -1


def _take(lock: int, config: NodeConfig) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(lock, 32, 0).strip()
        raise RootInUse(str(config.root), int(text) if text.isdigit() else None) from None


def _refuse_live_kubelet(path: Path) -> None:
    if answers(path):
        raise KubeletIsLive(str(path))


def answers(path: Path) -> bool:
    """Whether a server listens at a unix socket; waits for it a moment.

    Raises:
        OSError: it is closed to us, so that nothing is known.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_TIMEOUT_S)
        try:
            probe.connect(str(path))
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            return False
        except TimeoutError:
            pass  # its queue is full: a server is behind it
    return True


def _problem(error: OSError) -> str:
    if isinstance(error, NotADirectoryError | FileExistsError):
        return "is not a directory"
    return f"cannot be used as a node's root: {error.strerror}"


def _close(lock: int) -> None:
    if lock >= 0:
        os.close(lock)
