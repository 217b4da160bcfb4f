"""Taking a root for ourselves, and never one that somebody else serves."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path
from typing import Final

from plugbay.errors import KubeletIsLive, PathUnusable, RootInUse
from plugbay.node.config import NodeConfig
from plugbay.wire.transport import check_socket_path

_PROBE_TIMEOUT_S: Final = 1.0


def take_root(config: NodeConfig) -> int:
    """Lock the root; returns the descriptor that holds the lock. Nothing is written before all checks have passed.

    The lock ends with the descriptor, and so with our process, however that ends. Its file stays: removing it would
    let two nodes lock two files of one name. Waits for the disk.

    Raises:
        PathTooLong: a unix socket below the root could not be bound.
        PathUnusable: the root is no directory, or closed to us.
        RootInUse: another node holds it.
        KubeletIsLive: something answers where plugins register, and it is no node of ours.
    """
    check_socket_path(config.kubelet_paths.registration_socket)
    check_socket_path(config.control_socket)
    lock = -1
    try:
        lock = _open_existing(config.lock)
        if lock >= 0:
            _take(lock, config)
        # Only now: at the root of another node of ours something answers, too.
        _refuse_live_kubelet(config.kubelet_paths.registration_socket)
        if lock < 0:
            config.root.mkdir(parents=True, exist_ok=True)
            lock = os.open(config.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            _take(lock, config)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:
        _close(lock)
        raise PathUnusable(str(config.root), _problem(error)) from error
    except BaseException:
        _close(lock)
        raise
    return lock


def _open_existing(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return -1


def _take(lock: int, config: NodeConfig) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(lock, 32, 0).strip()
        raise RootInUse(str(config.root), int(text) if text.isdigit() else None) from None


def _refuse_live_kubelet(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_TIMEOUT_S)
        try:
            probe.connect(str(path))
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            return
        except TimeoutError:
            pass  # its queue is full: somebody is behind it
    raise KubeletIsLive(str(path))


def _problem(error: OSError) -> str:
    if isinstance(error, NotADirectoryError | FileExistsError):
        return "is not a directory"
    return f"cannot be used as a node's root: {error.strerror}"


def _close(lock: int) -> None:
    if lock >= 0:
        os.close(lock)
