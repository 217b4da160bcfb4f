"""The machine to look at: where its file system is, and the questions to its kernel."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from plugbay.kubelet.paths import STOCK_ROOT, KubeletPaths
from plugbay.observe.doctor.evidence.values import EvidenceSource, Gap
from plugbay.observe.places import seen_below
from plugbay.values import dataclass

CONTROL_SOCKET: Final = "plugbay.sock"
"""The control socket of a node of ours, below its root."""
JOURNALS: Final = ".plugbay"
"""The directory of our plugins' journals, in the kubelet's directory for plugins."""
ANSWER_S: Final = 2.0
_READ_S: Final = 5.0
_LOCK: Final = "plugbay.lock"


class Gaps:
    """Collects what could not be read, from several threads."""

    def __init__(self) -> None:
        self._noted: list[Gap] = []

    def note(self, source: EvidenceSource, what: object, why: object) -> None:
        if isinstance(why, OSError):
            why = why.strerror or str(why)
        gap = Gap(source, str(what), str(why))
        if gap not in self._noted:
            self._noted.append(gap)

    @property
    def noted(self) -> tuple[Gap, ...]:
        return tuple(self._noted)


def file_label(path: Path) -> str:
    """The SELinux label of a file; empty where it has none."""
    try:
        return os.getxattr(path, "security.selinux").rstrip(b"\0").decode(errors="replace")
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class Host:
    """A machine.

    Attributes:
        now_s: the time, in seconds since 1970.
        root: where its file system is; ``/`` for this machine, a mount in a pod.
        kubelet_root: the kubelet's directory, as the machine names it.
        other_root: the root of a second kubelet on the machine; empty if there is none.
        answer_s: the time that a plugin, the kubelet or a node has for an answer; people wait for the rest.
    """

    now_s: float
    root: Path = Path("/")
    kubelet_root: Path = STOCK_ROOT
    other_root: str = ""
    answer_s: float = ANSWER_S
    label_of: Callable[[Path], str] = file_label
    space_of: Callable[[Path], os.statvfs_result] = os.statvfs

    @property
    def read_s(self) -> float:
        """The time that files have; a file system that takes longer hangs, as one does whose server is gone."""
        return max(_READ_S, self.answer_s)

    @property
    def kubelet(self) -> KubeletPaths:
        """The kubelet's paths, as this process reaches them."""
        return KubeletPaths(self.at(self.kubelet_root))

    @property
    def is_this_machine(self) -> bool:
        return self.root == Path("/")

    def at(self, path: Path | str) -> Path:
        """A path of the machine as this process reaches it; links are followed as the machine would."""
        return seen_below(self.root, path)

    def shown(self, path: Path | str) -> str:
        """A path of this process as the machine names it."""
        try:
            return f"/{Path(path).relative_to(self.root)}" if not self.is_this_machine else str(path)
        except ValueError:
            return str(path)


def is_our_node(host: Host) -> bool:
    """Whether the kubelet is a node of plugbay, up or down.

    Raises:
        OSError: its root is closed to this user.
    """
    root = host.at(host.kubelet_root)
    return (root / CONTROL_SOCKET).is_socket() or (root / _LOCK).is_file()
