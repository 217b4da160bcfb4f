"""Read the machine: limits, file systems, control groups, labels, journals of plugins."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Final

from plugbay.observe.doctor.evidence.host import JOURNALS, Gaps, Host
from plugbay.observe.doctor.evidence.logs import read_denials
from plugbay.observe.doctor.evidence.machine_values import DiskSight, HostFile, MachineSight
from plugbay.observe.doctor.evidence.values import EvidenceSource, JournalSight

_INOTIFY: Final = ("max_user_instances", "max_user_watches", "max_queued_events")
_DISKS: Final = ("/var/lib/containerd", "/var/log", "/var/run/cdi")
_CLOEXEC: Final = os.O_CLOEXEC
_HEADER_BYTES: Final = 4096


def read_machine(host: Host, gaps: Gaps) -> MachineSight:
    """All but what containers were given, which the checkpoint has to tell first."""
    return MachineSight(
        host.now_s,
        _inotify(host, gaps),
        _inotify_problem(host),
        _is_cgroup_v1(host),
        _numa_nodes(host),
        _enforces_selinux(host),
        read_denials(host, gaps),
        _disks(host, gaps),
    )


def with_given(machine: MachineSight, given: tuple[HostFile, ...]) -> MachineSight:
    """The machine, with the files of the host that containers were given."""
    return replace(machine, given=given)


def _inotify(host: Host, gaps: Gaps) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in _INOTIFY:
        path = f"/proc/sys/fs/inotify/{name}"
        try:
            found[name] = int(host.at(path).read_text())
        except (OSError, ValueError) as error:
            gaps.note(EvidenceSource.LIMITS, path, error)
    return found


def _inotify_problem(host: Host) -> str:
    """Make a watch, as plugins and the kubelet do, and let it go at once."""
    if not host.is_this_machine:  # the limits are of the user, and a pod's user is the host's
        return ""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(_CLOEXEC)
    if descriptor < 0:
        return _limit(ctypes.get_errno(), "instance")
    try:
        if libc.inotify_add_watch(descriptor, b"/", 0x100) < 0:
            return _limit(ctypes.get_errno(), "watch")
    finally:
        os.close(descriptor)
    return ""


def _limit(number: int, what: str) -> str:
    known = number in (errno.EMFILE, errno.ENOSPC, errno.ENFILE, errno.ENOMEM)
    return f"an inotify {what} could not be made: {os.strerror(number)}" if known else ""


def _is_cgroup_v1(host: Host) -> bool | None:
    directory = host.at("/sys/fs/cgroup")
    if not directory.is_dir():
        return None
    if (directory / "cgroup.controllers").exists():
        return False
    return True if (directory / "devices").is_dir() or (directory / "cpu").exists() else None


def _numa_nodes(host: Host) -> int:
    from plugbay.kernel.numa import read_numa_nodes

    try:
        return len(read_numa_nodes(host.at("/sys")).nodes)
    except (OSError, ValueError):
        return 1


def _enforces_selinux(host: Host) -> bool:
    try:
        return host.at("/sys/fs/selinux/enforce").read_text().strip() == "1"
    except OSError:
        return False


def _disks(host: Host, gaps: Gaps) -> tuple[DiskSight, ...]:
    """Each file system once."""
    found: dict[int, DiskSight] = {}
    for shown in (str(host.kubelet_root), *_DISKS):
        path = host.at(shown)
        try:
            device = path.stat().st_dev
            space = host.space_of(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            gaps.note(EvidenceSource.DISKS, shown, error)
            continue
        size, free = space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize
        read_only = bool(space.f_flag & os.ST_RDONLY)
        found.setdefault(device, DiskSight(shown, size, free, space.f_files, space.f_favail, read_only))
    return tuple(found.values())


def read_journals(host: Host, gaps: Gaps) -> tuple[JournalSight, ...]:
    """The journals of plugbay's plugins, in their directory beside the plugins' sockets."""
    directory = host.kubelet.device_plugins / JOURNALS
    try:
        paths = sorted(each for each in directory.iterdir() if each.suffix == ".journal")
    except FileNotFoundError:
        return ()
    except OSError as error:
        gaps.note(EvidenceSource.JOURNALS, host.shown(directory), error)
        return ()
    found = (_journal(each, host, gaps) for each in paths)
    return tuple(each for each in found if each is not None)


def _journal(path: Path, host: Host, gaps: Gaps) -> JournalSight | None:
    """A journal's first line names the resource; each line is a checksum, a space and a JSON object."""
    import json

    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return None
        with path.open("rb") as file:
            lines = file.read(_HEADER_BYTES).splitlines()
    except OSError as error:
        gaps.note(EvidenceSource.JOURNALS, host.shown(path), error)
        return None
    resource = ""
    try:
        header = json.loads(lines[0][9:])
        resource = str(header["resource"]) if isinstance(header, dict) and "resource" in header else ""
    except (IndexError, ValueError):
        pass
    return JournalSight(host.shown(path), resource or path.stem.replace("_", "/", 1), len(lines) > 1, status.st_mtime)
