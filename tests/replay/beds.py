"""Where recordings are replayed: with processes of the host, with real containers, or on a container engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from plugbay.node.config import CriConfig, NodeConfig, OciConfig

_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class Bed:
    """One runtime of ours.

    Attributes:
        runtime: its name, as the node's option has it.
        image: of all containers.
        configured: the node's settings with those of the runtime; takes the directory of CDI specs.
        cdi: that directory, if the engine has one of its own.
        first_processes: of the containers of a pod, given by its UID, that have not ended: their directories below
            ``/proc``.
    """

    runtime: str
    image: str
    configured: Callable[[NodeConfig, Path], NodeConfig]
    first_processes: Callable[[NodeConfig, str], Iterator[Path]]
    cdi: Path | None = None


def oci_bed() -> Bed:
    """Containers of crun or runc, on the host's network."""
    return Bed("oci", "busybox", _with_oci, lambda _, uid: _first_in_cgroups(uid))


def cri_bed(socket: Path, cdi: Path, image: str) -> Bed:
    """Containers of the engine that answers at ``socket`` and reads CDI specs from ``cdi``, if it knows CDI."""

    def configured(config: NodeConfig, cdi: Path) -> NodeConfig:
        return replace(config, cri=CriConfig(socket, (cdi,)))

    return Bed("cri", image, configured, lambda _, uid: _first_in_cgroups(uid), cdi)


def _with_oci(config: NodeConfig, cdi: Path) -> NodeConfig:
    return replace(config, oci=OciConfig(None, None, (cdi,), None, ()))


def _recorded_processes(config: NodeConfig, uid: str) -> Iterator[Path]:
    for each in config.containers.glob(f"{uid}_*"):
        record = each / "process.json"
        if record.exists() and not (each / "exit.json").exists():
            yield _PROC / str(json.loads(record.read_bytes())["process"]["pid"])


def _first_in_cgroups(uid: str) -> Iterator[Path]:
    """Processes in cgroups of the pod that are the first of a PID namespace, but the one that does nothing."""
    for cgroups in _PROC.glob("[0-9]*/cgroup"):
        try:
            is_ours = uid in cgroups.read_text()
            process = cgroups.parent
            if is_ours and _is_first(status_of(process)) and b"pause" not in (process / "cmdline").read_bytes():
                yield process
        except OSError:
            continue  # it has ended


def status_of(process: Path) -> Mapping[str, str]:
    """What the kernel says of a process.

    Raises:
        OSError: it has ended.
    """
    return dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())


def _is_first(status: Mapping[str, str]) -> bool:
    inside = status["NSpid"].split()
    return len(inside) > 1 and inside[-1] == "1"


PROCESSES: Final = Bed("process", "busybox", lambda config, _: config, _recorded_processes)
