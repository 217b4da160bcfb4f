"""Termination messages: what a container wrote of its end into a file, else the end of its log.

Source: kubelet 1.36 ``kuberuntime_container.go`` (``getTerminationMessage``, ``toKubeContainerStatus``).
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path

from plugbay.model.cri import ContainerPhase, ContainerStatus
from plugbay.model.termination import MessagePolicy
from plugbay.node.runtimes.cri.config import MESSAGE_PATH, MESSAGE_POLICY
from plugbay.node.runtimes.cri.logs import log_end
from plugbay.node.runtimes.messages import MAX_LOG_BYTES, MAX_LOG_LINES, message_in


def make_message_file(pod: Path, container: str) -> str:
    """The path of a new empty file that whoever the container runs as can write. Waits for the disk.

    Args:
        pod: the pod's own directory, with which it goes.
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
