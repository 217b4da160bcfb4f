"""Containers that an engine runs: for `plugbay.node.runtimes.process.confinement`."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
from plugbay.node.runtimes.devices import find_devices, host_devices
from plugbay.node.runtimes.exec_input import Console
from plugbay.node.runtimes.imageless import unused_image
from plugbay.node.runtimes.log_files import log_end
from plugbay.node.runtimes.messages import MAX_LOG_BYTES, MAX_LOG_LINES, message_in
from plugbay.node.runtimes.mounts import check_mounts
from plugbay.node.runtimes.oci.engines import Engine, last_line
from plugbay.node.runtimes.oci.handlers import handler_of
from plugbay.node.runtimes.oci.injection import inject_cdi
from plugbay.node.runtimes.oci.mount_points import with_mount_points
from plugbay.node.runtimes.oci.placing import has_place
from plugbay.node.runtimes.oci.rootfs import HostView, RootFs, read_root
from plugbay.node.runtimes.oci.rootless import Owner, check_rootless, made_rootless
from plugbay.node.runtimes.oci.shares import PodFile, PodShares
from plugbay.node.runtimes.oci.spec import Surroundings, host_name, oci_spec
from plugbay.node.runtimes.port import ContainerId, ContainerSpec, Notice
from plugbay.node.runtimes.process.confinement import Ending, Launch
from plugbay.node.runtimes.process.launch import DEFAULT_PATH
from plugbay.node.runtimes.process.records import Instance, ProcessRecord, start_failure

logger = logging.getLogger(__name__)

_PROC: Final = Path("/proc")
_ENGINE_ID: Final = re.compile(r"[A-Za-z0-9_+.-]+")
_ROOTFS: Final = "rootfs"
_PID_FILE: Final = "pid"
"""Written by the engine once the container's command runs."""
_ENGINE_LOG: Final = "engine.log"
_CONFIG: Final = "config.json"
_MESSAGE: Final = "termination-log"
_LOG: Final = "log"
_OOM_MARK: Final = "oom-killed"
"""Made when the cgroup of a container that has ended told of it, before that is removed."""
_OOM_RESERVED: Final = "oom-killed.reserved"
"""Becomes the mark, for which a full disk may have no room."""
OOM_KILLED: Final = "OOMKilled"
_INNER_CGROUP: Final = "c"
"""Where an engine removes a container's cgroup at once, the one around it keeps the count, in version 2."""
_RUN_FAILED: Final = re.compile(r"^(?:runc|crun) (?:run|create) failed: ")
_EXEC_FAILED: Final = re.compile(
    r"^(?:exec failed: (?:unable to start container process: )?(.*)|(executable file .*|open executable: .*))"
)
"""What runc and crun say."""
_EXEC_FAILED_CODES: Final = frozenset({1, 126, 127, 255})


@dataclass(frozen=True, slots=True)
class Grounds:
    """What all containers of one node stand on.

    Attributes:
        view: what they see of the host's file system.
        cgroup_parent: begins the name of every pod's cgroup.
        capabilities: what this process could give at most, without ``CAP_``.
        cdi_directories: of CDI spec files, weakest first.
        owner: who the containers' root is, where the node has no root rights; None where it has.
        shares_of: what the containers of a pod share; may read a file, and refuse as `ContainerStartError`.
    """

    view: HostView
    cgroup_parent: str
    capabilities: tuple[str, ...]
    cdi_directories: tuple[Path, ...]
    shares_of: Callable[[PodUid], PodShares]
    owner: Owner | None = None


class OciConfinement:
    """Containers that ``engine`` runs."""

    name = "oci"

    def __init__(self, engine: Engine, grounds: Grounds) -> None:
        self._engine = engine
        self._grounds = grounds

    def launch(self, spec: ContainerSpec, container: ContainerId, directory: Path) -> Launch:
        check_mounts(spec)
        try:
            root = read_root(self._grounds.view)
        except OSError as error:
            problem = f"cannot read the root file system {self._grounds.view.rootfs or '/'}: {error.strerror}"
            raise ContainerStartError("CreateContainerError", problem) from error
        points = with_mount_points(self._config(spec, container, root, directory), root, directory)
        keep = self._engine.keep_options if spec.limits.memory_bytes and self._grounds.owner is None else ()
        run = ("run", *keep, "--bundle", str(directory), "--pid-file", str(directory / _PID_FILE), engine_id(container))
        log = ("--log", str(directory / _ENGINE_LOG), "--log-format", "json")
        program, *words = self._engine.argv(*log, *run)
        return Launch(
            (program, *words),
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
        where = ("--cwd", instance.spec.spec.working_dir or "/")
        # With a log of its own the engine says what failed in plain words on standard error.
        return self._engine.argv("--log", os.devnull, "exec", *terminal, *where, engine_id(instance.id), *argv)

    def command_failure(self, exit_code: int, said: bytes) -> str:
        failed = _EXEC_FAILED.match(last_line(said))
        return (failed[1] or failed[2]) if failed and exit_code in _EXEC_FAILED_CODES else ""

    async def kill(self, instance: Instance, record: ProcessRecord) -> None:
        """Through the engine, which then sees the end of the container and says its exit code.

        In the host's PID namespace nothing else ends with the first process, and crun would wait for what is left.
        """
        problem = await self._engine.call("kill", engine_id(instance.id), "KILL")
        await asyncio.to_thread(self._kill_left, instance)
        if problem:  # it is being made, or has just ended; what is left of it `clear` removes
            logger.info("container %s: %s", instance.id, problem)
            signal_group(record.process, signal.SIGKILL, proc_root=_PROC)

    async def clear(self, instance: Instance, directory: Path) -> None:
        """Also what runs on when somebody killed the engine's ``run``: it is the container's parent, not its jailer."""
        if await asyncio.to_thread(self._look_back, instance, directory):
            if problem := await self._engine.call("delete", "--force", engine_id(instance.id)):
                if await asyncio.to_thread(_may_run, instance, directory / _PID_FILE):
                    raise InstanceUnreadable(instance.id, f"{self._engine.kind} cannot end it: {problem}")
                logger.warning("container %s has ended but cannot be cleared away: %s", instance.id, problem)
        if self._has_inner_cgroup(instance.spec.spec):
            await asyncio.to_thread(self._remove_outer_cgroup, instance)

    def ending(self, instance: Instance, directory: Path) -> Ending:
        reason = OOM_KILLED if (directory / _OOM_MARK).exists() else ""
        message = message_in(directory / _MESSAGE)
        falls_back = instance.spec.spec.message.policy is MessagePolicy.FALLBACK_TO_LOGS
        if not message and falls_back and instance.exit is not None and instance.exit.exit_code != 0:
            message = log_end(directory / _LOG, lines=MAX_LOG_LINES, max_bytes=MAX_LOG_BYTES).decode(errors="replace")
        return Ending(reason, message)

    def _look_back(self, instance: Instance, directory: Path) -> bool:
        """Whether there is something to delete; first it is noted what the container's cgroup tells."""
        spec = instance.spec.spec
        self._kill_left(instance)
        if spec.limits.memory_bytes and oom_kills(self._cgroup(spec, instance.id), proc_root=_PROC):
            _mark(directory)
        return self._engine.knows(engine_id(instance.id))

    def _remove_outer_cgroup(self, instance: Instance) -> None:
        """The engine removes those that it was told of only. What stays now goes with the pod."""
        with contextlib.suppress(OSError):
            remove_cgroup(self._cgroup(instance.spec.spec, instance.id).strip("/"), proc_root=_PROC)

    def _has_inner_cgroup(self, spec: ContainerSpec) -> bool:
        return bool(spec.limits.memory_bytes) and not self._engine.keep_options

    def _kill_left(self, instance: Instance) -> None:
        if self._grounds.owner is None:
            kill_processes(self._cgroup(instance.spec.spec, instance.id), proc_root=_PROC)

    def _cgroup(self, spec: ContainerSpec, container: ContainerId) -> str:
        return f"/{pod_cgroup(self._grounds.cgroup_parent, spec.pod_uid)}/{engine_id(container)}"

    def _config(self, spec: ContainerSpec, container: ContainerId, root: RootFs, directory: Path) -> OciSpec:
        """What the pod asks for and its devices give, then CDI, which wins, and last what rights there are."""
        shares = self._grounds.shares_of(spec.pod_uid)
        devices = find_devices(spec.edits.device_nodes)
        if spec.security.privileged:
            devices += host_devices(Path("/dev"))
        if spec.limits.memory_bytes and accounts_swap(proc_root=_PROC):
            spec = replace(spec, limits=spec.limits.without_swap())
        around = self._surroundings(spec, container, root, shares, directory)
        config = oci_spec(spec, env=_environment(spec, shares), around=around, devices=devices)
        handler = handler_of(spec.runtime_class, engine=self._engine.kind)
        if handler is None:
            problem = f'no runtime for "{spec.runtime_class}" is configured'
            raise ContainerStartError("CreateContainerError", problem)
        directories = self._grounds.cdi_directories
        injected = inject_cdi(config, spec, handler=handler, engine=self._engine, directories=directories)
        if self._grounds.owner is None:
            return injected.config
        check_rootless(spec.security)
        host_paths = {**{each.path: each.host_path for each in reversed(devices)}, **injected.host_paths}
        return made_rootless(injected.config, self._grounds.owner, host_paths=host_paths)

    def _surroundings(
        self, spec: ContainerSpec, container: ContainerId, root: RootFs, shares: PodShares, directory: Path
    ) -> Surroundings:
        cgroup = self._cgroup(spec, container)
        if self._has_inner_cgroup(spec):
            cgroup += f"/{_INNER_CGROUP}"
        wanted_by = "" if spec.message.path == DEFAULT_MESSAGE.path else "terminationMessagePath"
        message = PodFile(Mount(directory / _MESSAGE, container_path=os.path.join("/", spec.message.path)), wanted_by)
        files = tuple(each for each in (*shares.files, message) if has_place(each, root, spec))
        return Surroundings(
            _ROOTFS,
            root.mounts,
            replace(shares, files=files),
            cgroup,
            self._grounds.capabilities,
            machine=os.uname().machine,
        )


def engine_id(container: ContainerId) -> str:
    """What the engine calls an instance: the same, unless it holds characters that runc does not allow."""
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
    """Whether a container's first process may run. A process that is older than the container has only its number."""
    try:
        stat = read_stat(int(pid_file.read_text()), proc_root=_PROC)
    except (FileNotFoundError, ValueError):
        return False  # it never ran
    made = instance.process.process.start_ticks if instance.process else 0
    return stat is not None and not stat.has_ended and stat.identity.start_ticks >= made


def _environment(spec: ContainerSpec, shares: PodShares) -> dict[str, str]:
    """In the order of containerd: what images have, then the devices' part, then the pod's, which wins."""
    return {"PATH": DEFAULT_PATH, "HOSTNAME": host_name(spec, shares), **spec.edits.env, **spec.env}


def _variables(config: Path) -> list[str]:
    """The environment of a container, that of its CDI devices included; none if it cannot be read."""
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
