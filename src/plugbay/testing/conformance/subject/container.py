"""The plugin under test in a container of its image, by crun or runc: privileged, as device plugins are deployed.

Every instance has the kubelet's root at ``/var/lib/kubelet``, a directory of its own for CDI specs, the host's ``/dev``
and ``/sys``, and a network without a way out. Writes to the image's root are shared by the instances of a run, except
in ``/tmp`` and ``/run``, and are gone after it.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from itertools import count
from pathlib import Path
from typing import Any, Final

from plugbay.errors import PathUnusable, UsageError
from plugbay.kernel.capabilities import held_capabilities
from plugbay.kubelet.paths import STOCK_ROOT
from plugbay.runtimes.oci.engines import OciEngine, choose_engine
from plugbay.testing.conformance.subject.command import SubjectLaunch, placed
from plugbay.testing.conformance.subject.image import UnpackedImage, unpack_image
from plugbay.values import dataclass

_PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DELETE_S: Final = 30.0
_PROC: Final = Path("/proc")
_NUMBERS: Final = count(1)


@dataclass(frozen=True, slots=True)
class BindMount:
    """A directory or file of the host that the container has."""

    source: Path
    destination: str
    is_read_only: bool = False

    @classmethod
    def parse(cls, text: str) -> BindMount:
        """Read ``HOST``, ``HOST:CONTAINER`` or ``HOST:CONTAINER:ro``.

        Raises:
            UsageError: ``text`` has another form.
        """
        source, _, rest = text.partition(":")
        destination, _, mode = rest.partition(":")
        if not source.startswith("/") or mode not in ("", "ro") or (destination or source)[0] != "/":
            raise UsageError(f"--mount: {text} is not HOST, HOST:CONTAINER or HOST:CONTAINER:ro, with absolute paths")
        return cls(Path(source), destination or source, mode == "ro")


@dataclass(frozen=True, slots=True)
class ContainerCommand:
    """Starts the plugin as a container; a `SubjectCommand`.

    Attributes:
        name: the image, as it was given.
        directory: for bundles, CDI specs, and what the engine keeps.
        arguments: those in place of the image's own; empty for the image's.
    """

    name: str
    image: UnpackedImage
    engine: OciEngine
    directory: Path
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[BindMount, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The image and the arguments, for reports."""
        return (self.name, *self.arguments)

    @property
    def is_enclosed(self) -> bool:
        """A container finds the kubelet at its usual place."""
        return True

    def cdi_directories(self, root: Path) -> tuple[Path, ...]:
        """Where the specs lie that an instance with the kubelet's root ``root`` writes to /var/run/cdi."""
        return (self.directory / "cdi" / root.name,)

    def launch(self, root: Path) -> SubjectLaunch:
        """Write a bundle for one more container; the engine's command line."""
        container = f"plugbay-{root.name}-{next(_NUMBERS)}"
        bundle = self.directory / "bundles" / container
        bundle.mkdir(parents=True)
        (cdi,) = self.cdi_directories(root)
        cdi.mkdir(parents=True, exist_ok=True)
        (bundle / "config.json").write_text(json.dumps(self._spec(root, cdi, container)), encoding="utf-8")
        words = self.engine.argv("run", "--bundle", str(bundle), "--pid-file", str(bundle / "pid"), container)
        return SubjectLaunch(words, {}, bundle / "pid", lambda: self._delete(container))

    def _delete(self, container: str) -> None:
        """Remove what is left of a container; nothing is of one that ended in order."""
        if self.engine.knows(container):
            words = self.engine.argv("delete", "--force", container)
            subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_DELETE_S, check=False)

    def _spec(self, root: Path, cdi: Path, container: str) -> dict[str, Any]:
        capabilities = [f"CAP_{name}" for name in held_capabilities(proc_root=_PROC)]
        uid, gid = self.image.user
        arguments = [placed(each, str(STOCK_ROOT)) for each in self.arguments]
        own = [f"{name}={placed(value, str(STOCK_ROOT))}" for name, value in self.environment.items()]
        return {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": uid, "gid": gid},
                "args": [*self.image.arguments, *(arguments or self.image.defaults)],
                "env": [_PATH, *self.image.environment, *own],
                "cwd": self.image.directory,
                "capabilities": dict.fromkeys(("bounding", "effective", "permitted", "inheritable"), capabilities),
            },
            "root": {"path": str(self.image.rootfs), "readonly": False},
            "hostname": "plugin",
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                _bind(BindMount(Path("/dev"), "/dev")),
                _bind(BindMount(Path("/sys"), "/sys")),
                {"destination": "/run", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
                {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=1777"]},
                _bind(BindMount(root, str(STOCK_ROOT))),
                _bind(BindMount(cdi, "/var/run/cdi")),
                *map(_bind, self.mounts),
            ],
            "linux": {
                "cgroupsPath": f"/{container}",
                "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network")],
                "resources": {"devices": [{"allow": True, "access": "rwm"}]},
            },
        }


def _bind(mount: BindMount) -> dict[str, Any]:
    mode = "ro" if mount.is_read_only else "rw"
    options = ["rbind", "rslave", mode]
    return {"destination": mount.destination, "type": "bind", "source": str(mount.source), "options": options}


@contextmanager
def container_command(
    source: Path,
    arguments: tuple[str, ...],
    environment: Mapping[str, str],
    mounts: tuple[BindMount, ...],
    *,
    environ: Mapping[str, str],
) -> Iterator[ContainerCommand]:
    """A command for the image in ``source``, which is unpacked into a directory that is gone after the block.

    Raises:
        UsageError: we are not root.
        PathUnusable: there is no such image, or it cannot be unpacked.
        EngineUnusable: neither crun nor runc works here.
    """
    if os.geteuid() != 0:
        raise UsageError("--image takes root: containers of device plugins are privileged")
    with tempfile.TemporaryDirectory(prefix="plugbay-image-") as made:
        directory = Path(made)
        engine = choose_engine(None, search_path=environ.get("PATH", os.defpath), state_dir=directory / "state")
        rootfs = directory / "rootfs"
        rootfs.mkdir()
        image = unpack_image(source, rootfs)
        if not image.arguments and not image.defaults and not arguments:
            raise PathUnusable(str(source), "does not say what is to be run; say it after --")
        yield ContainerCommand(str(source), image, engine, directory, arguments, environment, mounts)
