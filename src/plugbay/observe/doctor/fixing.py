"""Make the changes that harm no pod. Each is checked once more right before it is made."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from plugbay.observe.doctor.evidence.host import Host
from plugbay.observe.doctor.evidence.sockets import OUR_SOCKET, is_answering
from plugbay.observe.doctor.finding import Diagnosis, Fix, FixKind

_YOUNG_S: Final = 60
_STARTING_S: Final = 10
"""A plugin makes its socket's file a moment before it listens."""
_UNFINISHED: Final = (".kubelet_internal_checkpoint", "spec.")


def fixes_of(diagnosis: Diagnosis) -> tuple[Fix, ...]:
    """All changes that the findings offer, each once."""
    return tuple(dict.fromkeys(fix for finding in diagnosis.findings for fix in finding.seen.fixes))


def make(fixes: Iterable[Fix], host: Host) -> Iterator[tuple[Fix, str]]:
    """Make the changes; yields each with the reason why it was not made, empty if it was."""
    for fix in fixes:
        try:
            problem = _make(fix, host.at(fix.path), host)
        except OSError as error:
            problem = error.strerror or str(error)
        yield fix, problem


def _make(fix: Fix, path: Path, host: Host) -> str:
    match fix.kind:
        case FixKind.MAKE_DIRECTORY:
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
            return ""
        case FixKind.REMOVE_SOCKET:
            return _remove_socket(path, host)
        case FixKind.REMOVE_FILE:
            return _remove_file(path, host)


def _remove_socket(path: Path, host: Host) -> str:
    found = path.lstat()
    if not stat.S_ISSOCK(found.st_mode) or OUR_SOCKET.fullmatch(path.name) is None:
        return "it is not a socket of plugbay's plugins any more"
    if host.now_s - found.st_mtime < _STARTING_S:
        return "it was made a moment ago: its plugin may be starting"
    if is_answering(path):
        return "a process listens there now"
    os.unlink(path)
    return ""


def _remove_file(path: Path, host: Host) -> str:
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or not path.name.startswith(_UNFINISHED):
        return "it is not an unfinished file any more"
    if host.now_s - found.st_mtime < _YOUNG_S:
        return "it was written a moment ago"
    os.unlink(path)
    return ""
