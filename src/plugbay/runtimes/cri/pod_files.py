"""Files that are made for a pod's containers: ``/etc/hosts``, and those for termination messages.

Source: kubelet 1.36 ``kuberuntime_container.go`` (``getTerminationMessage``, ``toKubeContainerStatus``).
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path

from plugbay.model.cri import ContainerPhase, ContainerStatus
from plugbay.model.resolution import alias_lines
from plugbay.model.termination import MessagePolicy
from plugbay.runtimes.cri.config import MESSAGE_PATH, MESSAGE_POLICY
from plugbay.runtimes.cri.sandboxes import RunningSandbox
from plugbay.runtimes.hosts import hosts_text
from plugbay.runtimes.logs.lines import log_end
from plugbay.runtimes.messages import MAX_LOG_BYTES, MAX_LOG_LINES, message_in


def write_hosts(sandbox: RunningSandbox, directory: Path, *, host: str) -> str:
    """The path of the pod's ``/etc/hosts``, written anew as its addresses may be new; empty where the host's will do.

    Args:
        host: what the host's says.
    """
    aliases = sandbox.spec.pod.spec.host_aliases
    if not sandbox.ips and not aliases:
        return ""
    text = hosts_text(sandbox.ips, sandbox.config.hostname, aliases) if sandbox.ips else host + alias_lines(aliases)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "etc-hosts"
    path.write_text(text)
    path.chmod(0o644)
    return str(path)


def make_message_file(pod: Path, container: str) -> str:
    """The path of a new empty file that every user of the container can write. Waits for the disk.

    Args:
        pod: the pod's own directory, with which the file goes.
    """
    directory = pod / "containers" / container
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / secrets.token_hex(4)
    path.touch()
    path.chmod(0o666)
    return str(path)


def with_message(status: ContainerStatus) -> ContainerStatus:
    """``status`` with what the container has to say of its end, if it has ended. Waits for the disk."""
    if status.phase is not ContainerPhase.EXITED or not (own := _message(status)):
        return status
    return replace(status, message=f"{status.message}: {own}" if status.message else own)


def remove_message_file(status: ContainerStatus, pod: Path) -> None:
    """Remove what `make_message_file` made below ``pod``; what a pod mounts there itself stays."""
    file = status.mounts.get(status.annotations.get(MESSAGE_PATH, ""))
    if file is not None and Path(file).parent.parent == pod / "containers":
        Path(file).unlink(missing_ok=True)


def _message(status: ContainerStatus) -> str:
    file = status.mounts.get(status.annotations.get(MESSAGE_PATH, ""))
    if file is not None and (message := message_in(Path(file))):
        return message
    falls_back = status.annotations.get(MESSAGE_POLICY) == MessagePolicy.FALLBACK_TO_LOGS.value
    if not falls_back or status.exit_code == 0 or not status.log_path:
        return ""
    text = log_end(Path(status.log_path), lines=MAX_LOG_LINES)
    return text[-MAX_LOG_BYTES:].decode(errors="replace")
