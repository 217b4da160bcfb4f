"""The root file system of a container: a choice of the host's directories, or the content of one directory; read-only.

Directories are shown as overlays: through one, a unix socket of the host cannot be connected to, nor a FIFO be opened
to the other side, whichever process makes them and whenever. A read-only bind mount would keep nothing from connecting.

Source: Linux ``overlayfs.rst`` ("Sharing and copying layers", "Non-standard behavior"), ``unix(7)``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from plugbay.cdi.inject import clean
from plugbay.errors import ContainerStartError
from plugbay.kernel.mounts import mounted
from plugbay.runtimes.oci.host_etc import HostEtc
from plugbay.runtimes.oci.shares import PodFile
from plugbay.runtimes.port import ContainerSpec
from plugbay.values import dataclass

OciMount = dict[str, Any]

LOWER_LAYERS: Final = "lowerdir="
"""Begins the option of an overlay that names what it shows, the topmost layer first."""

_OWN: Final = frozenset({"proc", "sys", "dev", "run", "tmp", "lost+found"})
"""Directories that every container has of its own, or should not see."""
_SYSTEM: Final = (
    *("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "opt"),
    *("nix/store", "gnu/store"),
)
"""Directories with the programs of the host: nothing there is secret, or belongs to a running service."""
_EMPTY: Final = ("home", "media", "mnt", "opt", "root", "srv", "var/cache", "var/lib", "var/log")
_LINKS: Final = {"var/run": "../run", "var/lock": "../run/lock", "var/tmp": "../tmp"}
_NOTHING: Final = Path(os.devnull)
_NOT_IN_OPTIONS: Final = frozenset(":,\\")
_WRITABLE: Final = ("/dev", "/run", "/tmp")
"""Directories that every container has of its own."""


@dataclass(frozen=True, slots=True)
class HostView:
    """The part of the host's file system that containers see.

    Attributes:
        rootfs: the directory that becomes their root; None is the choice of the host's directories.
        etc: the directory that is seen as ``/etc`` in that choice; None for none.
        programs: directories besides, by their own paths, of that choice.
        hidden: directories that are empty whatever else is shown.
        layer: an empty directory, which an overlay needs beside the one that it shows; None where the kernel mounts no
            overlays for us: then directories are bind mounts, and sockets in them can be connected to.
        is_for_root: whether the node has root rights. If not, mounts below a directory have to come along with it, as
            they do not in an overlay.
        proc_root: where it is seen what is mounted.
    """

    rootfs: Path | None = None
    etc: HostEtc | None = None
    programs: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    layer: Path | None = None
    is_for_root: bool = True
    proc_root: Path = Path("/proc")


@dataclass(frozen=True, slots=True)
class RootFs:
    """The parts of a container's root file system.

    Attributes:
        mounts: the mounts of directories and files. File systems mounted further down are left out, so that all is
            read-only.
        links: symbolic links such as ``bin``, which mounts cannot give, by their path.
        directories: empty directories.
        sources: the host paths of the mounts, by the paths at which they are mounted.
    """

    mounts: tuple[OciMount, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    directories: tuple[str, ...] = ()
    sources: Mapping[str, Path] = field(default_factory=dict)

    def has_room(self, path: str) -> bool:
        """Whether the engine can mount something at ``path``: in place of what is there, or where it can be made."""
        path = self.resolved(path)
        above = [each for each in self.sources if path == each or path.startswith(f"{each}/")]
        if not above:
            return True
        nearest = max(above, key=len)
        return os.path.lexists(f"{self.sources[nearest]}{path.removeprefix(nearest)}")

    def resolved(self, path: str) -> str:
        """``path`` where it leads through the links."""
        for name, target in self.links.items():
            if path.startswith(f"/{name}/"):
                path = os.path.normpath(os.path.join("/", os.path.dirname(name), target) + path[len(name) + 1 :])
        return path


def read_root(view: HostView) -> RootFs:
    """The root file system of ``view``, composed of mounts in the container's namespace: the host gets none of them.

    Raises:
        OSError: a directory cannot be listed, or the copy of ``/etc`` not be written.
    """
    made = _Composition(view)
    if view.rootfs is None:
        made.show_choice(Path("/"))
    else:
        made.show_all(view.rootfs)
    made.hide(view.hidden)
    return RootFs(tuple(made.mounts), made.links, tuple(made.directories), made.sources)


class _Composition:
    """A `RootFs` while it is being put together."""

    def __init__(self, view: HostView) -> None:
        self._view = view
        self._mount_points = frozenset(path for path, _ in mounted(proc_root=view.proc_root))
        self.mounts: list[OciMount] = []
        self.links: dict[str, str] = {}
        self.directories: list[str] = []
        self.sources: dict[str, Path] = {}

    def show_all(self, root: Path) -> None:
        for name in sorted(os.listdir(root)):
            if (root / name).is_symlink():
                self.links[name] = os.readlink(root / name)
            elif name not in _OWN:
                self._show(root / name, f"/{name}")

    def show_choice(self, host: Path) -> None:
        for name in _SYSTEM:
            if (host / name).is_symlink():
                self.links[name] = os.readlink(host / name)
            else:
                self._show(host / name, f"/{name}")
        if (etc := self._view.etc) is not None:
            etc.refresh()
            self._show(etc.directory, "/etc")
        for path in self._view.programs:
            if not self._is_shown(path):
                self._show(path, str(path))
        self.directories += [each for each in _EMPTY if f"/{each}" not in self.sources and each not in self.links]
        self.links |= _LINKS

    def hide(self, directories: Iterable[Path]) -> None:
        """Cover what would be seen of ``directories``."""
        root = self._view.rootfs or Path("/")
        for path in directories:
            if not path.is_relative_to(root) or not path.is_dir():
                continue
            place = f"/{path.relative_to(root)}"
            above = [each for each in self.sources if place == each or place.startswith(f"{each}/")]
            if above and self._is_seen(path, below=self.sources[max(above, key=len)]):
                options = ["ro", "nosuid", "nodev", "noexec", "mode=555"]
                self.mounts.append({"destination": place, "type": "tmpfs", "source": "tmpfs", "options": options})
                self.sources[place] = _NOTHING

    def _is_seen(self, path: Path, *, below: Path) -> bool:
        """Whether containers see ``path``. Mounts further down are left out; without root rights they come along."""
        between = self._mount_points & {each for each in path.parents if each != below and each.is_relative_to(below)}
        return not between or not self._view.is_for_root

    def _is_shown(self, path: Path) -> bool:
        return any(path == source or path.is_relative_to(source) for source in self.sources.values())

    def _show(self, path: Path, place: str) -> None:
        try:
            mode = path.stat().st_mode
        except OSError:
            return
        if stat.S_ISDIR(mode) and self._can_be_overlay(path):
            layers = f"{LOWER_LAYERS}{path}:{self._view.layer}"
            options = ["ro", "nosuid", "nodev", layers]
            self.mounts.append({"destination": place, "type": "overlay", "source": "overlay", "options": options})
            self.sources[place] = path
        elif stat.S_ISDIR(mode) or stat.S_ISREG(mode):
            self._bind(path, place)

    def _bind(self, path: Path, place: str) -> None:
        options = ["bind", "ro", "nosuid", "nodev", "rprivate"]
        self.mounts.append({"destination": place, "type": "bind", "source": str(path), "options": options})
        self.sources[place] = path

    def _can_be_overlay(self, path: Path) -> bool:
        if self._view.layer is None or _NOT_IN_OPTIONS & {*str(path), *str(self._view.layer)}:
            return False
        return self._view.is_for_root or not self._holds_mounts(path)

    def _holds_mounts(self, directory: Path) -> bool:
        return any(each != directory and each.is_relative_to(directory) for each in self._mount_points)


def has_place(file: PodFile, root: RootFs, spec: ContainerSpec) -> bool:
    """Whether a file of the pod's can be shown: in place of one, or where the engine can make one.

    Raises:
        ContainerStartError: it cannot, and a field of the pod is about it.
    """
    path = clean(file.mount.container_path)
    volumes = {clean(each.container_path): each for each in (*spec.edits.mounts, *spec.mounts)}
    above = [each for each in (*_WRITABLE, *volumes) if path.startswith(f"{each}/")]
    below = max(above, key=len, default="")
    if volume := volumes.get(below):
        has_place = not volume.read_only or os.path.lexists(volume.host_path + path.removeprefix(below))
    else:
        has_place = below in _WRITABLE or root.has_room(path)
    if file.wanted_by and not has_place:
        problem = f"{file.wanted_by}: {path} is not there, and what is around it is read-only in the oci runtime"
        raise ContainerStartError("CreateContainerError", problem)
    return has_place
