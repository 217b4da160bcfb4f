"""The control groups that a kubelet makes for pods: they show which pods have containers, whatever the kubelet tells.

They lie below the cgroup ``kubepods``, or below the cgroup of the pod's QoS class, and have the pod's UID in their
names. A kubelet with ``cgroupsPerQOS: false`` makes none.

Source: kubelet 1.36 ``cgroup_manager_linux.go``, ``pod_container_manager_linux.go``; Linux ``cgroups(7)``.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from plugbay.kernel.cgroups import hierarchies
from plugbay.model.ids import PodUid

logger = logging.getLogger(__name__)

_ROOT: Final = "kubepods"
_SLICE: Final = ".slice"
_CLASSES: Final = ("", "burstable", "besteffort")
_DEEPEST: Final = 4
"""The depth to which pods' cgroups are looked for: ``cgroupRoot`` or a node inside a node puts them deeper."""
_UNITS: Final = (".service", ".scope", ".mount", ".socket")
"""Endings of systemd's cgroups. There are hundreds, and kubelets put no pods there."""


class PodCgroups:
    """The cgroups of one kubelet, as far as this process sees them; a container needs a mount of the host's control
    groups for that.

    A kubelet makes the cgroups above those of pods when it starts, so they are looked for once.
    """

    def __init__(self, *, proc_root: Path) -> None:
        self._proc_root = proc_root
        self._roots: list[Path] | None = None

    def with_containers(self, pods: Collection[PodUid]) -> frozenset[PodUid]:
        """The ``pods`` that have a container, even an ending one, and those whose cgroup cannot be read.

        Reading may fail for want of file descriptors. Empty if cgroups are not visible at all. Blocks.
        """
        try:
            return frozenset(pod for pod in pods if pod and any(map(_is_populated, self._of(pod))))
        except OSError as error:
            logger.warning("cannot see whether pods have containers, so their devices are not released yet: %s", error)
            return frozenset(filter(None, pods))

    def _of(self, pod: PodUid) -> Iterator[Path]:
        if self._roots is None:
            self._roots = self._find()
        for root in self._roots:
            for service in _CLASSES:
                yield _directory(root, service, pod)

    def _find(self) -> list[Path]:
        try:
            tops = dict.fromkeys(hierarchies(proc_root=self._proc_root))
        except (FileNotFoundError, NotADirectoryError):  # without a proc file system no cgroup is visible
            return []
        return [root for top in tops for root in _below(top)]


def _below(top: Path) -> Iterator[Path]:
    for directory, below, _ in os.walk(top, onerror=_unless_it_goes):
        path = Path(directory)
        for name in below:
            if _is_root(name):
                yield path / name
        is_deep = len(path.parts) - len(top.parts) + 1 >= _DEEPEST
        below[:] = [] if is_deep else [name for name in below if not (_is_root(name) or name.endswith(_UNITS))]


def _is_root(name: str) -> bool:
    return name.removesuffix(_SLICE).rpartition("-")[2] == _ROOT


def _directory(root: Path, service: str, pod: PodUid) -> Path:
    """The cgroup of a pod of this class. systemd's names repeat the names above them, joined by hyphens."""
    if not root.name.endswith(_SLICE):
        return root / service / f"pod{pod}"
    words = [root.name.removesuffix(_SLICE), *([service] if service else [])]
    above = root / ("-".join(words) + _SLICE) if service else root
    return above / ("-".join([*words, f"pod{pod.replace('-', '_')}"]) + _SLICE)


def _unless_it_goes(error: OSError) -> None:
    """
    Raises:
        OSError: for another reason than that a cgroup has just gone, or is closed to us.
    """
    if error.errno not in (errno.ENOENT, errno.ENODEV, errno.ENOTDIR, errno.EACCES, errno.EPERM):
        raise error


def _is_populated(cgroup: Path) -> bool:
    try:
        events = (cgroup / "cgroup.events").read_text()
    except FileNotFoundError:
        # In another PID namespace version 1 shows no processes; but each container has a cgroup as long as it runs.
        return _has_cgroups(cgroup)
    except OSError as error:
        _unless_it_goes(error)
        return False
    return "populated 1" in events.splitlines()


def _has_cgroups(cgroup: Path) -> bool:
    try:
        with os.scandir(cgroup) as found:
            return any(entry.is_dir(follow_symlinks=False) for entry in found)
    except OSError as error:
        _unless_it_goes(error)
        return False
