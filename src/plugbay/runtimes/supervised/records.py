"""The files that tell of a container instance: how they are written, and what is read back of them.

Compatibility: a later plugbay adopts containers that an earlier one started. Members are only added, with a default
for readers; none is renamed or removed, and readers ignore unknown ones. Every member of ``spec.json`` is spelled out
here, so that a change of a value class changes no file. ``process.json`` and ``exit.json`` are written by
``wrapper.py``; the names of instances and markers are part of the format.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote as escape
from urllib.parse import unquote

import msgspec

from plugbay.documents.go_json import compact
from plugbay.kernel.processes import ProcessIdentity
from plugbay.manifest.v1 import hook_to_v1
from plugbay.model.edits import ContainerEdits, Mount
from plugbay.model.ids import ContainerName, PodUid
from plugbay.model.limits import CgroupLimits, memory_request
from plugbay.model.pods import Container
from plugbay.model.ports import ContainerPort
from plugbay.model.qos import qos_class
from plugbay.model.security import Security
from plugbay.model.termination import MessagePolicy, TerminationMessage
from plugbay.runtimes.port import ContainerId, ContainerSpec
from plugbay.values import dataclass

RESERVED: Final = "exit.reserved"
"""A file that takes its room at the start and becomes ``exit.json``, since the disk may be full at the end."""
_MARKER: Final = re.compile(r"ran_([^_]+)_(\d+)_(\d+)_(\d+)_(\d+)", re.ASCII)
_ID: Final = re.compile(r"([^_]+)_([^_]+)_(\d+)", re.ASCII)


# --- spec.json ------------------------------------------------------------------------------------------------------


class MessageRecord(msgspec.Struct, frozen=True):
    policy: MessagePolicy = MessagePolicy.FILE


class LimitsRecord(msgspec.Struct, frozen=True):
    memory_bytes: int = 0


class AskedRecord(msgspec.Struct, frozen=True):
    """The part of a recorded `ContainerSpec` that is needed once its container runs."""

    pod_uid: PodUid
    name: ContainerName
    attempt: int
    argv: tuple[str, ...]
    working_dir: str | None
    limits: LimitsRecord = LimitsRecord()
    message: MessageRecord = MessageRecord()


class SpecRecord(msgspec.Struct, frozen=True):
    """The content of ``spec.json``: the container that was asked for, and its command's environment and directory."""

    asked: AskedRecord = msgspec.field(name="spec")
    env: Mapping[str, str]
    working_dir: str
    created_at: datetime


def encode_spec(spec: ContainerSpec, *, env: Mapping[str, str], working_dir: str, created_at: datetime) -> bytes:
    """``spec.json``.

    Args:
        env: the environment that the command gets.
        working_dir: the directory that the command is started in.
    """
    record = {"spec": _asked(spec), "env": dict(env), "working_dir": working_dir, "created_at": created_at}
    return msgspec.json.encode(record)


def decode_spec(text: bytes) -> SpecRecord:
    """The needed part of a file that `encode_spec` made.

    Raises:
        msgspec.MsgspecError, UnicodeDecodeError: the file is damaged.
    """
    return msgspec.json.decode(text, type=SpecRecord)


def _asked(spec: ContainerSpec) -> dict[str, Any]:
    pod, container = spec.pod, spec.container
    return {
        "pod_uid": pod.uid,
        "namespace": pod.namespace,
        "pod": pod.name,
        "name": container.name,
        "attempt": spec.attempt,
        "image": container.image,
        "argv": spec.argv,
        "working_dir": container.working_dir,
        "env": dict(spec.env),
        "mounts": [_mount(each) for each in spec.mounts],
        "edits": _edits(spec.edits),
        "hostname": pod.spec.hostname,
        "security": _security(container.security),
        "limits": _limits(spec.limits),
        "runtime_class": pod.spec.runtime_class,
        "command": spec.command,
        "pull_policy": spec.pull_policy.value,
        "qos": qos_class(pod).value,
        "memory_request": memory_request(container),
        "grace_period_s": pod.spec.termination_grace_period_s,
        "message": _message(spec.message),
        "ports": [_port(each) for each in container.ports],
        "pre_stop": _pre_stop(container),
        "untrusted_paths": spec.untrusted_paths,
    }


def _mount(mount: Mount) -> dict[str, Any]:
    return {
        "host_path": mount.host_path,
        "container_path": mount.container_path,
        "read_only": mount.read_only,
    }


def _edits(edits: ContainerEdits) -> dict[str, Any]:
    nodes = [
        {"host_path": each.host_path, "container_path": each.container_path, "permissions": each.permissions}
        for each in edits.device_nodes
    ]
    return {
        "env": dict(edits.env),
        "mounts": [_mount(each) for each in edits.mounts],
        "device_nodes": nodes,
        "annotations": dict(edits.annotations),
        "cdi_devices": edits.cdi_devices,
    }


def _security(security: Security) -> dict[str, Any]:
    return {
        "run_as_user": security.run_as_user,
        "run_as_group": security.run_as_group,
        "run_as_non_root": security.run_as_non_root,
        "supplemental_groups": security.supplemental_groups,
        "privileged": security.privileged,
        "added_capabilities": security.added_capabilities,
        "dropped_capabilities": security.dropped_capabilities,
        "read_only_root": security.read_only_root,
        "allow_privilege_escalation": security.allow_privilege_escalation,
        "fs_group": security.fs_group,
        "seccomp": security.seccomp.value if security.seccomp else None,
    }


def _limits(limits: CgroupLimits) -> dict[str, Any]:
    return {
        "cpu_shares": limits.cpu_shares,
        "cpu_quota_us": limits.cpu_quota_us,
        "memory_bytes": limits.memory_bytes,
        "memory_and_swap_bytes": limits.memory_and_swap_bytes,
    }


def _message(message: TerminationMessage) -> dict[str, Any]:
    return {"path": message.path, "policy": message.policy.value}


def _port(port: ContainerPort) -> dict[str, Any]:
    return {
        "container_port": port.container_port,
        "host_port": port.host_port,
        "protocol": port.protocol.value,
        "host_ip": port.host_ip,
        "name": port.name,
    }


def _pre_stop(container: Container) -> str:
    return compact(hook_to_v1(container.pre_stop)) if container.pre_stop else ""


# --- process.json, and the marker that says the same ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """The processes of an instance. ``wrapper`` is the parent of ``process``, which leads the session."""

    boot_id: str
    wrapper: ProcessIdentity
    process: ProcessIdentity
    started_at: float


class _Identity(msgspec.Struct):
    pid: int
    start_ticks: int


class _Process(msgspec.Struct):
    boot_id: str
    wrapper: _Identity
    process: _Identity
    started_at: float


def decode_process(text: bytes) -> ProcessRecord:
    """``process.json``.

    Raises:
        msgspec.MsgspecError, UnicodeDecodeError: the file is damaged.
    """
    read = msgspec.json.decode(text, type=_Process)
    return ProcessRecord(read.boot_id, _identity(read.wrapper), _identity(read.process), read.started_at)


def _identity(read: _Identity) -> ProcessIdentity:
    return ProcessIdentity(read.pid, start_ticks=read.start_ticks)


def parse_marker(name: str, *, started_at: float) -> ProcessRecord | None:
    """The same from the name of a wrapper's empty file; None for the name of any other file."""
    if (found := _MARKER.fullmatch(name)) is None:
        return None
    wrapper = ProcessIdentity(int(found[2]), start_ticks=int(found[3]))
    return ProcessRecord(found[1], wrapper, ProcessIdentity(int(found[4]), start_ticks=int(found[5])), started_at)


# --- exit.json ------------------------------------------------------------------------------------------------------


class ExitRecord(msgspec.Struct, frozen=True):
    """``exit.json``: how the container's process ended.

    Attributes:
        exit_code: 128 + ``signal`` when a signal ended it.
        failed_step: when the command could not be run: ``setsid``, ``log``, ``chdir`` or ``exec``.
        errno: the error number of that step.
    """

    finished_at: float
    exit_code: int
    signal: int | None = None
    failed_step: str = ""
    errno: int = 0


def decode_exit(text: bytes) -> ExitRecord:
    """``exit.json``.

    Raises:
        msgspec.MsgspecError, UnicodeDecodeError: the file is damaged.
    """
    return msgspec.json.decode(text, type=ExitRecord)


# --- names of instances ---------------------------------------------------------------------------------------------


def container_id(spec: ContainerSpec) -> ContainerId:
    """One file name for each pod UID, container name and attempt, whatever characters they have."""
    return ContainerId(f"{_escape(spec.pod.uid)}_{_escape(spec.container.name)}_{spec.attempt}")


def is_container_id(name: str) -> bool:
    """Whether a file name is one that `container_id` gives."""
    return _ID.fullmatch(name) is not None


def stand_in(container: ContainerId, *, created_at: datetime) -> SpecRecord | None:
    """The record of an instance if only its name is left; None if the name is not one of ours."""
    if (found := _ID.fullmatch(container)) is None:
        return None
    asked = AskedRecord(
        pod_uid=PodUid(unquote(found[1])),
        name=ContainerName(unquote(found[2])),
        attempt=int(found[3]),
        argv=("?",),
        working_dir=None,
    )
    return SpecRecord(asked, env={}, working_dir="/", created_at=created_at)


def _escape(text: str) -> str:
    return escape(text, safe="").replace("_", "%5F").replace(".", "%2E")
