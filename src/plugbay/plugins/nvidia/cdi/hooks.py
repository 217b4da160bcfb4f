"""The names by which programs find the driver: the toolkit's hooks, or mounts in their place.

Source: nvidia-container-toolkit 1.20.0 ``internal/discover/{hooks,symlinks,graphics,ldconfig}.go``; spec 6.4.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final

from plugbay.cdi.spec import Hook
from plugbay.plugins.nvidia.cdi.driver_files import DriverFiles
from plugbay.plugins.nvidia.cdi.tree import Library
from plugbay.plugins.nvidia.config.configuration import ALL_HOOKS
from plugbay.values import dataclass

DEFAULT_HOOK_PROGRAM: Final = "/usr/bin/nvidia-ctk"
_CREATE_CONTAINER: Final = "createContainer"
_ENV: Final = ("NVIDIA_CTK_DEBUG=false",)
_LIBRARY: Final = re.compile(r"lib.+\.so(\..*)?")
_CUDA: Final = re.compile(r"libcuda\.so\..*\..*")
_VERSIONED: Final = re.compile(r".*\..*\..*")


class HookMode(Enum):
    """How the driver's libraries get the names by which programs look for them."""

    TOOLKIT = "toolkit"
    """By hooks of NVIDIA's container toolkit, which has to be installed on the host."""
    SELF_CONTAINED = "self-contained"
    """By mounts and ``LD_LIBRARY_PATH``: nothing runs on the host. Images that set this variable lose their value."""


@dataclass(frozen=True, slots=True)
class HookPrograms:
    """The toolkit's program.

    Attributes:
        path: on the host; one that is called ``nvidia-ctk`` has the hooks as sub-commands.
        disabled: names of hooks that are left out, or ``all``.
    """

    path: str = DEFAULT_HOOK_PROGRAM
    disabled: frozenset[str] = frozenset()

    def hook(self, name: str, *args: str) -> Iterator[Hook]:
        """The hook, unless it is disabled."""
        if name in self.disabled or ALL_HOOKS in self.disabled:
            return
        program = posixpath.basename(self.path)
        beginning = (program, "hook") if program == "nvidia-ctk" else (program,)
        yield Hook(_CREATE_CONTAINER, self.path, (*beginning, name, *args), _ENV)

    def links(self, links: Iterable[tuple[str, str]]) -> Iterator[Hook]:
        """The hook that makes links, given as target and link; none for no links."""
        args = [arg for target, link in dict.fromkeys(links) for arg in ("--link", f"{target}::{link}")]
        if args:
            yield from self.hook("create-symlinks", *args)

    def cache(self, folders: Iterable[str]) -> Iterator[Hook]:
        """The hook that makes the dynamic linker find the libraries in ``folders``; none for no folders."""
        if args := [arg for folder in folders for arg in ("--folder", folder)]:
            yield from self.hook("update-ldcache", *args)


def library_folders(paths: Iterable[str]) -> list[str]:
    """The directories of those files that are libraries by their names, each once."""
    libraries = (path for path in paths if _LIBRARY.fullmatch(posixpath.basename(path)))
    return list(dict.fromkeys(map(posixpath.dirname, libraries)))


def driver_hooks(files: DriverFiles, programs: HookPrograms) -> Iterator[Hook]:
    """The hooks that every container with a GPU needs, in order."""
    yield from programs.links(link for library in files.graphics for link in _graphics_links(library, files.version))
    yield from programs.links(link for library in files.libraries for link in driver_links(library))
    yield from programs.hook("enable-cuda-compat", f"--host-driver-version={files.version}")
    yield from programs.cache(library_folders(library.path for library in files.libraries))
    yield from programs.hook("disable-device-node-modification")
    yield from programs.hook("update-application-profile")


def driver_links(library: Library) -> Iterator[tuple[str, str]]:
    """The links beside a library in containers, each as target and link.

    Some are always made, as programs expect them; those for SONAMEs only where the host has them too.
    """
    directory, name = posixpath.split(library.path)
    if not _VERSIONED.fullmatch(name):
        return
    if _CUDA.fullmatch(name):
        yield "libcuda.so.1", posixpath.join(directory, "libcuda.so")
    elif name.startswith("libGLX_nvidia.so."):
        yield name, posixpath.join(directory, "libGLX_indirect.so.0")
    elif name.startswith("libnvidia-opticalflow.so."):
        yield "libnvidia-opticalflow.so.1", posixpath.join(directory, "libnvidia-opticalflow.so")
    soname = library.soname
    if soname is None:
        return
    if soname != name and soname in library.links:
        yield name, posixpath.join(directory, soname)
    bare = _bare(soname)
    if bare != soname and bare in library.links:
        yield soname, posixpath.join(directory, bare)


def mounted_names(library: Library, version: str) -> Iterator[str]:
    """The paths at which containers find a library when no hook makes links: its own, its SONAME and its links."""
    directory = posixpath.dirname(library.path)
    names = [library.path]
    if library.soname:
        names.append(posixpath.join(directory, library.soname))
    if posixpath.basename(library.path).startswith("libcuda.so."):
        names.append(posixpath.join(directory, "libcuda.so.1"))
    names += [link for _, link in (*driver_links(library), *_graphics_links(library, version))]
    yield from dict.fromkeys(names)


def _graphics_links(library: Library, version: str) -> Iterator[tuple[str, str]]:
    directory, name = posixpath.split(library.path)
    if name == f"libnvidia-allocator.so.{version}":
        yield "../libnvidia-allocator.so.1", posixpath.join(directory, "gbm", "nvidia-drm_gbm.so")
    for stem in ("libnvidia-vulkan-producer.so", "libglxserver_nvidia.so"):
        if name == f"{stem}.{version}":
            yield name, posixpath.join(directory, stem)


def _bare(soname: str) -> str:
    head, mark, _ = soname.partition(".so")
    return head + mark if mark else soname
