"""Containers that an engine runs: for `plugbay.runtimes.supervised.confinement`."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from plugbay.cdi.inject import OciSpec
from plugbay.errors import ContainerStartError, InstanceUnreadable
from plugbay.kernel.cgroups import accounts_swap, kill_processes, oom_kills, remove_cgroup
from plugbay.kernel.inotify import Inotify, Mask
from plugbay.kernel.processes import ProcessIdentity, read_stat, signal_group, watch_end
from plugbay.model.edits import Mount
from plugbay.model.ids import PodUid
from plugbay.model.termination import DEFAULT_MESSAGE, MessagePolicy
from plugbay.runtimes.devices import FoundDevice, find_devices, host_devices
from plugbay.runtimes.exec_input import Console
from plugbay.runtimes.logs.lines import log_end
from plugbay.runtimes.messages import MAX_LOG_BYTES, MAX_LOG_LINES, message_in
from plugbay.runtimes.mounts import check_mounts
from plugbay.runtimes.oci.engines import OciEngine, last_line
from plugbay.runtimes.oci.handlers import handler_of
from plugbay.runtimes.oci.injection import inject_cdi
from plugbay.runtimes.oci.mount_points import with_mount_points
from plugbay.runtimes.oci.rootfs import HostView, RootFs, has_place, read_root
from plugbay.runtimes.oci.rootless import FileOwner, check_rootless, made_rootless
from plugbay.runtimes.oci.shares import PodFile, PodShares
from plugbay.runtimes.oci.spec import ContainerSurroundings, host_name, oci_spec
from plugbay.runtimes.port import ContainerId, ContainerSpec, Notice
from plugbay.runtimes.supervised.confinement import Ending, Launch
from plugbay.runtimes.supervised.consoles import TerminalMaker
from plugbay.runtimes.supervised.imageless import unused_image
from plugbay.runtimes.supervised.instance import Instance, start_failure
from plugbay.runtimes.supervised.launch import DEFAULT_PATH, DEFAULT_TERM, HANDOVER
from plugbay.runtimes.supervised.records import ProcessRecord
from plugbay.values import dataclass

logger = logging.getLogger(__name__)

_PROC: Final = Path("/proc")
_ENGINE_ID: Final = re.compile(r"[A-Za-z0-9_+.-]+")
_ROOTFS: Final = "rootfs"
_PID_FILE: Final = "pid"
"""A file that is there once the container's command runs and its terminal, if it has one, takes input."""
_ENGINE_LOG: Final = "engine.log"
_CONFIG: Final = "config.json"
_MESSAGE: Final = "termination-log"
_LOG: Final = "log"
_OOM_MARK: Final = "oom-killed"
"""The mark that the container ran out of memory; it is made before the cgroup that told it is removed."""
_OOM_RESERVED: Final = "oom-killed.reserved"
"""An empty file made at the start; it is renamed to the mark, since a full disk may have no room for a new file."""
OOM_KILLED: Final = "OOMKilled"
_INNER_CGROUP: Final = "c"
"""A cgroup in the container's own: engines remove it at once, and in version 2 the outer one keeps count of kills."""
_RUN_FAILED: Final = re.compile(r"^(?:runc|crun) (?:run|create) failed: ")
_EXEC_FAILED: Final = re.compile(
    r"^(?:exec failed: (?:unable to start container process: )?(.*)|(executable file .*|open executable: .*))"
)
"""The messages of runc and crun."""
_EXEC_FAILED_CODES: Final = frozenset({1, 126, 127, 255})


@dataclass(frozen=True, slots=True)
class Grounds:
    """The settings that all containers of one node share.

    Attributes:
        view: the part of the host's file system that they see.
        cgroup_parent: begins the name of every pod's cgroup.
        capabilities: all capabilities that this process could give, without ``CAP_``.
        cdi_directories: directories of CDI spec files, weakest first.
        owner: the user that is root in containers, where the node has no root rights; None where it has.
        shares_of: what the containers of a pod share; may read a file, and refuse as `ContainerStartError`.
    """

    view: HostView
    cgroup_parent: str
    capabilities: tuple[str, ...]
    cdi_directories: tuple[Path, ...]
    shares_of: Callable[[PodUid], PodShares]
    owner: FileOwner | None = None


class OciConfinement:
    """Containers that ``engine`` runs."""

    name = "oci"
    terminal_maker = TerminalMaker.ENGINE

    def __init__(self, engine: OciEngine, grounds: Grounds) -> None:
        self._engine = engine
        self._grounds = grounds

    def launch(
        self, spec: ContainerSpec, container: ContainerId, directory: Path, *, is_given_up: Callable[[], bool]
    ) -> Launch:
        check_mounts(spec)
        devices = find_devices(spec.edits.device_nodes, is_given_up=is_given_up)
        if spec.container.security.privileged:
            devices += host_devices(Path("/dev"), is_given_up=is_given_up)
        try:
            root = read_root(self._grounds.view)
        except OSError as error:
            problem = f"cannot read the root file system {self._grounds.view.rootfs or '/'}: {error.strerror}"
            raise ContainerStartError("CreateContainerError", problem) from error
        config = self._config(spec, container, devices, root, directory)
        points = with_mount_points(config, root, directory)
        keep = self._engine.keep_options if spec.limits.memory_bytes and self._grounds.owner is None else ()
        log = ("--log", str(directory / _ENGINE_LOG), "--log-format", "json")
        engine, pid_file = self._engine.argv(*log, "run"), str(directory / _PID_FILE)
        words = (*keep, "--bundle", str(directory))
        if spec.container.tty:
            argv = handing_over(engine, (*words, engine_id(container)), directory=directory, pid_file=pid_file)
        else:
            argv = (*engine, *words, "--pid-file", pid_file, engine_id(container))
        return Launch(
            argv,
            "/",
            {"PATH": DEFAULT_PATH},
            files={
                _CONFIG: json.dumps(points.config, separators=(",", ":")).encode(),
                _OOM_RESERVED: b"",
                **dict.fromkeys(points.files, b""),
            },
            links={f"{_ROOTFS}/{name}": target for name, target in root.links.items()},
            directories=(_ROOTFS, *(f"{_ROOTFS}/{name}" for name in root.directories), *points.directories),
            open_files=(_MESSAGE,),
        )

    def shortcomings(self, spec: ContainerSpec) -> Sequence[Notice]:
        return unused_image(spec, instead="the oci runtime gives containers the root file system of --oci-rootfs")

    async def until_started(self, directory: Path, *, wrapper: ProcessIdentity) -> None:
        async with Inotify() as changes:
            changes.add(directory, Mask.CLOSE_WRITE | Mask.MOVED_TO)
            if (directory / _PID_FILE).exists():
                return
            with watch_end(wrapper, changes.close, proc_root=_PROC):
                async for event in changes:
                    if event.name == _PID_FILE:
                        return

    def start_failure(self, instance: Instance, directory: Path) -> str:
        if instance.exit is None or (directory / _PID_FILE).exists():
            return ""
        if instance.exit.failed_step:
            return start_failure(instance.spec, instance.exit)
        return _RUN_FAILED.sub("", _last_error(directory / _ENGINE_LOG)) or "the engine ended before the container ran"

    def command(
        self, instance: Instance, argv: Sequence[str], console: Console | None, directory: Path
    ) -> tuple[str, ...]:
        terminal: list[str] = []
        if console is Console.TERMINAL:
            # crun takes what it is given in place of the container's own variables, runc besides them.
            others = _variables(directory / _CONFIG) if self._engine.kind == "crun" else []
            given = [*([] if any(each.startswith("TERM=") for each in others) else ["TERM=xterm"]), *others]
            terminal = ["--tty", *(word for each in given for word in ("--env", each))]
        where = ("--cwd", instance.spec.asked.working_dir or "/")
        # With a log of its own the engine says what failed in plain words on standard error.
        engine = self._engine.argv("--log", os.devnull, "exec")
        words = (*terminal, *where, engine_id(instance.id), *argv)
        return handing_over(engine, words, directory=directory) if terminal else (*engine, *words)

    def command_failure(self, exit_code: int, said: bytes) -> str:
        failed = _EXEC_FAILED.match(last_line(said))
        return (failed[1] or failed[2]) if failed and exit_code in _EXEC_FAILED_CODES else ""

    async def kill(self, instance: Instance, record: ProcessRecord) -> None:
        """Kill the container through the engine, which then sees its end and reports its exit code.

        In the host's PID namespace nothing else ends with the first process, and crun would wait for what is left.
        """
        problem = await self._engine.call("kill", engine_id(instance.id), "KILL")
        await asyncio.to_thread(self._kill_left, instance)
        if problem:  # it is being made, or has just ended; what is left of it `clear` removes
            logger.info(
                "the engine cannot kill container %s, so its processes are killed directly: %s", instance.id, problem
            )
            signal_group(record.process, signal.SIGKILL, proc_root=_PROC)

    async def clear(self, instance: Instance, directory: Path) -> None:
        """Remove what is left of a container, which can outlive the engine's ``run``: that is only its parent."""
        if await asyncio.to_thread(self._look_back, instance, directory):
            if problem := await self._engine.call("delete", "--force", engine_id(instance.id)):
                if await asyncio.to_thread(_may_run, instance, directory / _PID_FILE):
                    raise InstanceUnreadable(instance.id, f"{self._engine.kind} cannot end it: {problem}")
                logger.warning(
                    "container %s has ended, but its traces stay, until the node's next start at the latest: %s",
                    instance.id,
                    problem,
                )
        if self._has_inner_cgroup(instance.spec.asked.limits.memory_bytes):
            await asyncio.to_thread(self._remove_outer_cgroup, instance)

    def ending(self, instance: Instance, directory: Path) -> Ending:
        reason = OOM_KILLED if (directory / _OOM_MARK).exists() else ""
        message = message_in(directory / _MESSAGE)
        falls_back = instance.spec.asked.message.policy is MessagePolicy.FALLBACK_TO_LOGS
        if not message and falls_back and instance.exit is not None and instance.exit.exit_code != 0:
            message = log_end(directory / _LOG, lines=MAX_LOG_LINES)[-MAX_LOG_BYTES:].decode(errors="replace")
        return Ending(reason, message)

    def _look_back(self, instance: Instance, directory: Path) -> bool:
        """Take note of what the container's cgroup tells, and return whether there is something to delete."""
        self._kill_left(instance)
        if instance.spec.asked.limits.memory_bytes and oom_kills(self._cgroup_of(instance), proc_root=_PROC):
            _mark(directory)
        return self._engine.knows(engine_id(instance.id))

    def _remove_outer_cgroup(self, instance: Instance) -> None:
        """The engine removes those that it was told of only. What stays now goes with the pod."""
        with contextlib.suppress(OSError):
            remove_cgroup(self._cgroup_of(instance).strip("/"), proc_root=_PROC)

    def _has_inner_cgroup(self, memory_bytes: int) -> bool:
        return bool(memory_bytes) and not self._engine.keep_options

    def _kill_left(self, instance: Instance) -> None:
        if self._grounds.owner is None:
            kill_processes(self._cgroup_of(instance), proc_root=_PROC)

    def _cgroup_of(self, instance: Instance) -> str:
        return self._cgroup(instance.spec.asked.pod_uid, instance.id)

    def _cgroup(self, pod: PodUid, container: ContainerId) -> str:
        return f"/{pod_cgroup(self._grounds.cgroup_parent, pod)}/{engine_id(container)}"

    def _config(
        self,
        spec: ContainerSpec,
        container: ContainerId,
        devices: Sequence[FoundDevice],
        root: RootFs,
        directory: Path,
    ) -> OciSpec:
        """The spec by the wishes of the pod and its devices, then by CDI, which wins, and last by the node's rights."""
        shares = self._grounds.shares_of(spec.pod.uid)
        if spec.limits.memory_bytes and accounts_swap(proc_root=_PROC):
            spec = replace(spec, limits=spec.limits.without_swap())
        around = self._surroundings(spec, container, root, shares, directory)
        config = oci_spec(spec, env=_environment(spec, shares), around=around, devices=devices)
        handler = handler_of(spec.pod.spec.runtime_class, engine=self._engine.kind)
        if handler is None:
            problem = f'no runtime for "{spec.pod.spec.runtime_class}" is configured'
            raise ContainerStartError("CreateContainerError", problem)
        directories = self._grounds.cdi_directories
        injected = inject_cdi(config, spec, handler=handler, engine=self._engine, directories=directories)
        if self._grounds.owner is None:
            return injected.config
        check_rootless(spec.container.security)
        host_paths = {**{each.path: each.host_path for each in reversed(devices)}, **injected.host_paths}
        return made_rootless(injected.config, self._grounds.owner, host_paths=host_paths)

    def _surroundings(
        self, spec: ContainerSpec, container: ContainerId, root: RootFs, shares: PodShares, directory: Path
    ) -> ContainerSurroundings:
        cgroup = self._cgroup(spec.pod.uid, container)
        if self._has_inner_cgroup(spec.limits.memory_bytes):
            cgroup += f"/{_INNER_CGROUP}"
        wanted_by = "" if spec.message.path == DEFAULT_MESSAGE.path else "terminationMessagePath"
        message = PodFile(Mount(directory / _MESSAGE, container_path=os.path.join("/", spec.message.path)), wanted_by)
        files = tuple(each for each in (*shares.files, message) if has_place(each, root, spec))
        return ContainerSurroundings(
            _ROOTFS,
            root.mounts,
            replace(shares, files=files),
            cgroup,
            self._grounds.capabilities,
            machine=os.uname().machine,
        )


def handing_over(
    engine: Sequence[str], words: Sequence[str], *, directory: Path, pid_file: str = ""
) -> tuple[str, ...]:
    """The command line that runs ``engine`` with ``words``, and hands over the terminal that the engine makes."""
    program = (sys.executable, "-I", "-S", "-X", "utf8", os.fspath(HANDOVER))
    return (*program, os.fspath(directory), pid_file, str(len(engine)), *engine, *words)


def engine_id(container: ContainerId) -> str:
    """The engine's name for an instance: its ID, unless that has characters which runc does not allow."""
    if _ENGINE_ID.fullmatch(container):
        return container
    return hashlib.sha256(container.encode()).hexdigest()


def pod_cgroup(parent: str, pod: PodUid) -> str:
    """The name of a pod's cgroup, right below the root of every hierarchy: no two pods share a directory."""
    name = pod if _ENGINE_ID.fullmatch(pod) else hashlib.sha256(pod.encode()).hexdigest()
    return f"{parent}-{name}"


def _mark(directory: Path) -> None:
    try:
        (directory / _OOM_RESERVED).rename(directory / _OOM_MARK)
    except FileNotFoundError:  # marked before, or made by an earlier plugbay
        (directory / _OOM_MARK).touch()


def _may_run(instance: Instance, pid_file: Path) -> bool:
    """Whether a container's first process may run. An older process with its number is another one."""
    try:
        stat = read_stat(int(pid_file.read_text()), proc_root=_PROC)
    except (FileNotFoundError, ValueError):
        return False  # it never ran
    made = instance.process.process.start_ticks if instance.process else 0
    return stat is not None and not stat.has_ended and stat.identity.start_ticks >= made


def _environment(spec: ContainerSpec, shares: PodShares) -> dict[str, str]:
    """Merge variables in containerd's order: an image's usual ones, then the devices', then the pod's, which win."""
    terminal = {"TERM": DEFAULT_TERM} if spec.container.tty else {}
    return {"PATH": DEFAULT_PATH, "HOSTNAME": host_name(spec, shares), **terminal, **spec.edits.env, **spec.env}


def _variables(config: Path) -> list[str]:
    """The environment of a container, variables of its CDI devices included; empty if it cannot be read."""
    try:
        found = json.loads(config.read_bytes())["process"]["env"]
    except (OSError, ValueError, LookupError, TypeError):
        return []
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _last_error(log: Path) -> str:
    """The last error among an engine's log lines, which are JSON objects."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    for line in reversed(lines):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and entry.get("level") == "error":
            return str(entry.get("msg", ""))
    return ""
