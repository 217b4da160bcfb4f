"""A copy of what programs of the host look for in ``/etc``: one directory to show to containers.

Much of ``/etc`` is secret, and a container's root may read whatever is mounted for it. So the choice is by name, and of
that what every user may read; a copy, because dozens of mounts would double the time that a container takes to start.
"""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

_NAMES: Final = frozenset(
    (
        *("alternatives", "bash.bashrc", "bashrc", "bash_completion.d", "ca-certificates", "ca-certificates.conf"),
        *("crypto-policies", "debian_version", "fonts", "gai.conf", "group", "host.conf", "hostname", "hosts"),
        *("inputrc", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf", "localtime"),
        *("login.defs", "lsb-release", "magic", "magic.mime", "mime.types", "mtab", "networks", "nsswitch.conf"),
        *("OpenCL", "openmpi", "os-release", "passwd", "perl", "profile", "profile.d", "protocols", "redhat-release"),
        *("resolv.conf", "rpc", "services", "shells", "static", "terminfo", "timezone", "vulkan", "xattr.conf", "xdg"),
    )
)
_PATTERNS: Final = ("java-*", "ld-musl-*.path", "python3*")
_DEEPER: Final = {
    "pki": ("ca-trust", "tls/cert.pem", "tls/certs", "tls/openssl.cnf"),
    "ssl": ("cert.pem", "certs", "openssl.cnf"),
}
"""Directories that are shown only in part, because keys lie beside that part."""
_POD_FILES: Final = ("hosts", "hostname", "resolv.conf")
"""A pod may have its own of these, for which a file has to be there; a link would lead its mount astray."""
_SHOWN: Final = ("/etc", "/usr", "/opt", "/nix/store", "/gnu/store", "/proc")
"""A link from here to elsewhere would lead nowhere in a container: what it leads to is copied instead."""
_MAX_BYTES: Final = 16 * 2**20

_Mark = tuple[tuple[str, int, int, int], ...]


class HostEtc:
    """The copy at ``directory``; made by `refresh`, which any thread may call.

    Args:
        host: what is copied.
    """

    def __init__(self, directory: Path, *, host: Path = Path("/etc")) -> None:
        self.directory = directory
        self._host = host
        self._lock = threading.Lock()
        self._mark: _Mark | None = None

    def refresh(self) -> None:
        """Bring the copy up to date, if a file or directory of the choice was changed since.

        Containers that run see the change, as they would with the host's own directory.

        Raises:
            OSError: it cannot be written.
        """
        with self._lock:
            names = list(self._chosen())
            mark = tuple(_mark(self._host, name) for name in names)
            if mark == self._mark and self.directory.is_dir():
                return
            self.directory.mkdir(mode=0o755, exist_ok=True)
            for name in names:
                _copy(self._host / name, self.directory / name)
            for name in _POD_FILES:
                if not (self.directory / name).exists():
                    _write(self.directory / name, b"", 0o644)
            self._remove_others(names)
            self._mark = mark

    def _chosen(self) -> Iterator[str]:
        for name in sorted(os.listdir(self._host)):
            if name in _NAMES or any(fnmatchcase(name, pattern) for pattern in _PATTERNS):
                yield name
            for deeper in _DEEPER.get(name, ()):
                if os.path.lexists(self._host / name / deeper):
                    yield f"{name}/{deeper}"

    def _remove_others(self, names: list[str]) -> None:
        kept = {name.split("/")[0] for name in names} | {*_POD_FILES}
        for entry in os.scandir(self.directory):
            if entry.name not in kept:
                _remove(Path(entry.path))


def _mark(host: Path, name: str) -> tuple[str, int, int, int]:
    try:
        found = os.stat(host / name)
    except OSError:
        return name, 0, 0, 0
    return name, found.st_ino, found.st_size, found.st_mtime_ns


def _copy(source: Path, target: Path) -> None:
    """The entries that every user may read; the rest is left out, and so are entries that have just gone."""
    try:
        if source.is_symlink() and _leads_to_what_is_shown(source):
            _link(os.readlink(source), target)
            return
        found = source.stat()
        if stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_IXOTH:
            names = os.listdir(source)
        elif stat.S_ISREG(found.st_mode) and found.st_mode & stat.S_IROTH and found.st_size <= _MAX_BYTES:
            if not _is_same(target, found):
                _write(target, source.read_bytes(), 0o755 if found.st_mode & stat.S_IXOTH else 0o644, found)
            return
        else:
            _remove(target)
            return
    except (FileNotFoundError, PermissionError):
        _remove(target)
        return
    if target.is_symlink() or not target.is_dir():
        _remove(target)
        target.mkdir(mode=0o755, parents=True)
    for name in names:
        _copy(source / name, target / name)
    for name in set(os.listdir(target)) - set(names):
        _remove(target / name)


def _leads_to_what_is_shown(link: Path) -> bool:
    if link.name in _POD_FILES:
        return False
    target = os.path.realpath(link)
    return target.startswith(tuple(f"{each}/" for each in _SHOWN))


def _is_same(target: Path, found: os.stat_result) -> bool:
    try:
        there = target.lstat()
    except OSError:
        return False
    is_regular = stat.S_ISREG(there.st_mode)
    return is_regular and (there.st_size, there.st_mtime_ns) == (found.st_size, found.st_mtime_ns)


def _write(target: Path, content: bytes, mode: int, found: os.stat_result | None = None) -> None:
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    making = target.with_name(f".{target.name}.new")
    making.write_bytes(content)
    making.chmod(mode)
    if found is not None:
        os.utime(making, ns=(found.st_mtime_ns, found.st_mtime_ns))
    if target.is_dir() and not target.is_symlink():
        _remove(target)
    making.replace(target)


def _link(text: str, target: Path) -> None:
    if target.is_symlink() and os.readlink(target) == text:
        return
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    _remove(target)
    target.symlink_to(text)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
