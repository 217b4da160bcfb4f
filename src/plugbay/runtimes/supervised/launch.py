"""Prepares a container's process: its environment, the paths it counts on, and its wrapper."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import stat
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from plugbay.errors import ContainerStartError
from plugbay.kernel.files import absolute
from plugbay.model.edits import DeviceNode, Mount
from plugbay.model.pods import Container
from plugbay.runtimes.devices import lstat_failed, not_generated
from plugbay.runtimes.logs.files import DEFAULT_LOGS, LogLimits
from plugbay.runtimes.port import ContainerId, ContainerSpec
from plugbay.runtimes.supervised.confinement import Confinement, Launch
from plugbay.runtimes.supervised.consoles import TerminalMaker
from plugbay.runtimes.supervised.exec_client import listen_for_guests

DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The PATH that containerd gives a container whose image has none."""
DEFAULT_TERM: Final = "xterm"
"""The kind of terminal that engines tell a container which asks for one."""
MOUNTS_VARIABLE: Final = "PLUGBAY_MOUNTS"
CONTAINER_VARIABLE: Final = "PLUGBAY_CONTAINER"
"""The variable with the instance's directory; by it processes are found after their wrapper was killed."""
WRAPPER: Final = Path(__file__).with_name("wrapper.py")
HANDOVER: Final = Path(__file__).with_name("handover.py")
START_S: Final = 120.0
"""The deadline of each part of a start, which a hook can hold up; it is a kubelet's for requests to an engine."""
_DEVICE_KINDS: Final = (stat.S_ISCHR, stat.S_ISBLK, stat.S_ISFIFO, stat.S_ISDIR)
"""The kinds of files that containerd takes for devices; it looks for devices below a directory."""
_UNUSABLE_NAME: Final = re.compile(r"[=\0]|^$")


def container_environment(spec: ContainerSpec, *, home: str, directory: Path) -> dict[str, str]:
    """The whole environment of the container: defaults, then the devices' part, then the pod's, which wins.

    Args:
        directory: the instance's.
    """
    defaults = {"PATH": DEFAULT_PATH, "HOSTNAME": spec.pod.name, "HOME": home}
    if moved := moved_paths(spec):
        defaults[MOUNTS_VARIABLE] = json.dumps(moved)
    if spec.container.tty:
        defaults["TERM"] = DEFAULT_TERM
    return {**defaults, **spec.edits.env, **spec.env, CONTAINER_VARIABLE: str(directory)}


def moved_paths(spec: ContainerSpec) -> dict[str, str]:
    """The paths that differ between container and host: host paths by container paths."""
    placed: tuple[DeviceNode | Mount, ...] = (*spec.edits.device_nodes, *spec.edits.mounts, *spec.mounts)
    return {item.container_path: item.host_path for item in placed if item.container_path != item.host_path}


def encode_launch(argv: tuple[str, ...], *, working_dir: str, env: Mapping[str, str]) -> bytes:
    """The ``launch`` file that the wrapper reads.

    Raises:
        ContainerStartError: a word or variable cannot be given to a process.
    """
    for name in env:
        if _UNUSABLE_NAME.search(name):
            raise ContainerStartError("CreateContainerError", f"{name!r} cannot be the name of an environment variable")
    fields = [working_dir, str(len(argv)), *argv, *(f"{name}={value}" for name, value in env.items())]
    for field in fields:
        if "\0" in field:
            raise ContainerStartError("CreateContainerError", f"{field!r} holds a NUL character")
    return "".join(f"{field}\0" for field in fields).encode(errors="surrogateescape")


def check_paths(spec: ContainerSpec) -> None:
    """Refuse what an engine would refuse, although the process uses the host's paths as they are.

    A missing mount is refused: the node has made before what it wants to be made.

    Raises:
        ContainerStartError: a path is missing or is not a device, or a CDI device is asked for.

    Source: containerd 2.1.9 ``internal/cri``, ``pkg/oci``; ``device access at`` is runc 1.3's text.
    """
    if restrictions := ", ".join(spec.container.security.restrictions()):
        raise not_generated(
            f"the process runtime cannot confine a container, as {restrictions} of its pod would have it"
        )
    if spec.edits.cdi_devices:
        names = ", ".join(spec.edits.cdi_devices)
        raise not_generated(f"CDI device injection failed: the process runtime cannot inject CDI devices {names}")
    for number, node in enumerate(spec.edits.device_nodes, 1):
        _check_device(node, number)
    for mount in (*spec.edits.mounts, *spec.mounts):
        _mode(mount.host_path)


async def plan_launch(confinement: Confinement, spec: ContainerSpec, container: ContainerId, directory: Path) -> Launch:
    """See `Confinement.launch`, which must not hold up the start for ever: a device may be a huge directory.

    Raises:
        ContainerStartError: it cannot be made as it is wanted, or that is not known in time.
    """
    given_up = threading.Event()
    try:
        async with asyncio.timeout(START_S):
            return await asyncio.to_thread(confinement.launch, spec, container, directory, is_given_up=given_up.is_set)
    except TimeoutError:
        problem = f"context deadline exceeded: looking at its host paths took longer than {START_S:g} s"
        raise ContainerStartError("CreateContainerError", problem) from None
    finally:
        given_up.set()


def input_words(container: Container, maker: TerminalMaker) -> str:
    """Tell a wrapper what its container reads; see `container_input`. Empty for a container that reads nothing."""
    wanted = {
        "stdin": container.stdin,
        "once": container.stdin and container.stdin_once,
        "terminal": container.tty,
        "engine": container.tty and maker is TerminalMaker.ENGINE,
    }
    return ",".join(word for word, is_wanted in wanted.items() if is_wanted)


def spawn_wrapper(
    directory: Path,
    *,
    boot_id: str,
    environ: Mapping[str, str],
    report: int,
    logs: LogLimits = DEFAULT_LOGS,
    wanted_input: str = "",
) -> int:
    """Start the wrapper of the instance in ``directory`` and return its pid, our child.

    It opens a session of its own, and writes to ``report`` what it has to say about the start. It listens at a socket
    in the directory. Takes about a millisecond, in which the C library's ``posix_spawn`` waits for the new program;
    nothing of it is cancellable.
    """
    # -X utf8: arguments and variables are bytes to Linux, and pass unharmed whatever the locale is.
    program = [sys.executable, "-I", "-S", "-X", "utf8", os.fspath(WRAPPER)]
    argv = [*program, os.fspath(directory), boot_id, str(logs.max_bytes), str(logs.max_files), wanted_input]
    with listen_for_guests(directory) as listener:
        return os.posix_spawn(
            sys.executable,
            argv,
            environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, report, 1),
                (os.POSIX_SPAWN_DUP2, report, 2),
                (os.POSIX_SPAWN_DUP2, listener.fileno(), 3),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
        )


def _check_device(node: DeviceNode, number: int) -> None:
    mode = _mode(node.host_path)
    if not any(is_kind(mode) for is_kind in _DEVICE_KINDS):
        raise not_generated(
            f'get device path: "{node.host_path}" containerPath: "{node.container_path}" error: not a device node'
        )
    if not node.permissions:
        raise ContainerStartError("StartError", f"device access at {number} field cannot be empty")


def _mode(path: str) -> int:
    try:
        return os.stat(absolute(path)).st_mode
    except OSError as error:
        raise lstat_failed(path, error) from error
