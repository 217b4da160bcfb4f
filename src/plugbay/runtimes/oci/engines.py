"""The engines: which one is here and works, and its calls besides ``run``."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from plugbay.cdi.inject import OciSpec
from plugbay.errors import EngineUnusable, LockHeld
from plugbay.kernel.cgroups import remove_cgroup
from plugbay.kernel.files import FileLock
from plugbay.runtimes.oci.rootless import FileOwner, made_rootless
from plugbay.values import dataclass

KNOWN: Final = ("crun", "runc")
"""The engines in the order in which they are tried: crun starts containers faster."""
CALL_S: Final = 30.0
"""The deadline of calls that take milliseconds, unless the machine is overloaded."""

_SPEC: Final = re.compile(r"^spec: (\d+)\.(\d+)", re.MULTILINE)
_KEEP: Final = "--keep"
_ABSENT_PROGRAM: Final = "plugbay-probe"
_PROBE: Final = "plugbay-probe-"
_LOCK: Final = "lock"
_PROC: Final = Path("/proc")
_NOT_FOUND: Final = re.compile(r"executable file .*not found", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OciEngine:
    """An engine that works here.

    Attributes:
        version: its name and version: ``runc 1.1.5``.
        state_dir: where it keeps what it knows of containers, a directory each.
        passed_over: those that were tried first, and why they do not work.
        oci_version: of the OCI runtime specification that it says it follows.
        keep_options: for ``run``, to keep a container's cgroup until it is deleted; none where the engine cannot.
    """

    program: str
    version: str
    state_dir: Path
    passed_over: Mapping[str, str]
    oci_version: tuple[int, ...] = (1, 0)
    keep_options: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """``runc`` or ``crun``, or whatever it calls itself."""
        return self.version.split(" ")[0]

    def argv(self, *words: str) -> tuple[str, ...]:
        return (self.program, "--root", str(self.state_dir), *words)

    def knows(self, container: str) -> bool:
        """Whether anything is left of a container; one that ended in order leaves nothing."""
        return (self.state_dir / container).exists()

    async def call(self, *words: str) -> str:
        """Run an engine, and return why the call failed; empty when it did not."""
        process = await asyncio.create_subprocess_exec(
            *self.argv(*words), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        try:
            async with asyncio.timeout(CALL_S):
                _, said = await process.communicate()
        except TimeoutError:
            return f"{self.program} {words[0]} did not end within {CALL_S:.0f} s"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return "" if process.returncode == 0 else last_line(said) or f"exit code {process.returncode}"


def choose_engine(wanted: str | None, *, search_path: str, state_dir: Path) -> OciEngine:
    """The engine ``wanted`` by name or path, or the first of `KNOWN` that runs containers here. Takes some 0.1 s.

    Raises:
        EngineUnusable: there is none.
    """
    refusals: dict[str, str] = {}
    for name in (wanted,) if wanted else KNOWN:
        program = shutil.which(name, path=search_path)
        if program is None:
            refusals[name] = "not found"
        elif problem := probe(program):
            refusals[name] = problem
        else:
            said = _said(program, "--version")
            version = _version(said) or os.path.basename(program)
            return OciEngine(program, version, state_dir, refusals, _oci_version(said), _keep_options(program))
    raise EngineUnusable(refusals)


def probe(program: str, mounts: Sequence[OciSpec] = ()) -> str:
    """Find out why an engine cannot run containers here; empty when it can.

    It is asked to run a program that no root file system has: an engine that says so has made everything else.

    Args:
        mounts: what the container should have besides.
    """
    with _probe_bundle() as bundle:
        (bundle / "rootfs").mkdir()
        name = bundle.name
        (bundle / "config.json").write_text(json.dumps(_probe_spec(name, mounts)))
        argv = [program, "--root", str(bundle / "state"), "run", "--bundle", str(bundle), name]
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=CALL_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        said = last_line(done.stderr) or last_line(done.stdout)
        if _NOT_FOUND.search(said):
            return ""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            delete = [*argv[:3], "delete", "--force", name]
            subprocess.run(delete, stdin=subprocess.DEVNULL, capture_output=True, timeout=CALL_S, check=False)
        return said or f"it ended with exit code {done.returncode} and no word"


@contextlib.contextmanager
def _probe_bundle() -> Iterator[Path]:
    """A bundle for a container that is named after it. What nodes have left that were killed meanwhile is swept.

    It is locked: the kernel ends the lock of a process that dies. It does not lie in the node's root, which need not be
    the node's yet when it tries engines.
    """
    places = Path(tempfile.gettempdir())
    for left in places.glob(f"{_PROBE}*"):
        _sweep_probe(left)
    with contextlib.ExitStack() as stack:
        made = _locked_bundle(places, stack)
        stack.callback(shutil.rmtree, made, ignore_errors=True)
        yield made


def _locked_bundle(places: Path, stack: contextlib.ExitStack) -> Path:
    while True:
        made = Path(tempfile.mkdtemp(prefix=_PROBE, dir=places))
        with contextlib.suppress(LockHeld, FileNotFoundError):  # another node has swept it before it was locked
            stack.enter_context(FileLock(made / _LOCK))
            return made


def _sweep_probe(bundle: Path) -> None:
    """Remove a bundle of ours that no process uses, and the cgroup of its container."""
    try:
        found = bundle.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return
        with FileLock(bundle / _LOCK):
            remove_cgroup(bundle.name, proc_root=_PROC)
            shutil.rmtree(bundle, ignore_errors=True)
    except (LockHeld, OSError):
        return


def last_line(said: bytes) -> str:
    lines = said.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def _probe_spec(name: str, more: Sequence[OciSpec]) -> OciSpec:
    mounts = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
    ]
    spec: OciSpec = {
        "ociVersion": "1.0.2",
        "process": {"user": {"uid": 0, "gid": 0}, "args": [_ABSENT_PROGRAM], "env": ["PATH=/"], "cwd": "/"},
        "root": {"path": "rootfs", "readonly": True},
        "mounts": [*mounts, *more],
        "linux": {
            "cgroupsPath": f"/{name}",
            "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")],
            "resources": {"devices": [{"allow": False, "access": "rwm"}]},
        },
    }
    return spec if os.geteuid() == 0 else made_rootless(spec, FileOwner(os.geteuid(), os.getegid()), host_paths={})


def _keep_options(program: str) -> tuple[str, ...]:
    """runc has it since version 1.1; crun has not."""
    return (_KEEP,) if _KEEP in _said(program, "run", "--help").split() else ()


def _version(said: str) -> str:
    return next((line.replace(" version ", " ") for line in said.splitlines()[:1]), "")


def _oci_version(said: str) -> tuple[int, ...]:
    """The version in ``spec: 1.0.2-dev``; an engine that does not say it is an old one."""
    found = _SPEC.search(said)
    return (int(found[1]), int(found[2])) if found else (1, 0)


def _said(*argv: str) -> str:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=CALL_S, check=False)
    return done.stdout.decode(errors="replace")
