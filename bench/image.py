"""The image of `make image`: its size, and a container of it beside the same plugin without one.

Needs root, runc and apt. It makes the image of what apt and pip offer now; PLUGBAY_IMAGE_PACKAGES in the environment
names a directory that keeps what was fetched.
"""

from __future__ import annotations

import asyncio
import compileall
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import plugbay
from bench.figures import Figure, Pace
from bench.processes import python, rss_mb
from plugbay.kubelet.paths import KubeletPaths
from plugbay.testing.fakes.kubelet import FakeKubelet, fake_kubelet

REPOSITORY: Final = Path(__file__).parents[1]
RESOURCE: Final = "example.com/gopher"
SERVE: Final = ("serve", "--log-level", "warning", "directory", "--resource", RESOURCE, "--env", "Gopher", "--path")
STARTS: Final = {Pace.FULL: 15, Pace.QUICK: 3}
SETTLING_S: Final = {Pace.FULL: 60.0, Pace.QUICK: 3.0}
RSS_SLACK_MB: Final = 3
_NAMESPACES: Final = ("pid", "ipc", "uts", "mount", "cgroup")


@dataclass(frozen=True, slots=True)
class Image:
    """An image that was made for the bench."""

    layout: Path
    rootfs: Path

    def compressed_mb(self) -> float:
        """Of all blobs, in units of 10**6 bytes."""
        return sum(path.stat().st_size for path in (self.layout / "blobs/sha256").iterdir()) / 1e6


async def measure(pace: Pace) -> AsyncIterator[Figure]:
    if problem := why_not():
        print(f"image: nothing to measure: {problem}", file=sys.stderr)
        return
    compileall.compile_dir(Path(plugbay.__file__).parent, quiet=1)  # as in the image
    with tempfile.TemporaryDirectory(prefix="pb") as directory:
        base = Path(directory)
        image = await made(base)
        yield Figure("image_compressed_mb", image.compressed_mb(), "MB", 55)
        gophers = base / "gophers"
        gophers.mkdir()
        (gophers / "g0").touch()
        async with fake_kubelet(KubeletPaths(base / "timed")) as kubelet:
            bundle = write_bundle(base / "timed-bundle", image, base / "timed", gophers)
            container_ms = await start_ms(kubelet, bundle, STARTS[pace])
            yield Figure("container_start_to_registered_ms", container_ms, "ms", 700)
        async for figure in memory(image, base, gophers, pace):
            yield figure
        yield Figure("manifest_ms", await manifest_ms(gophers, STARTS[pace]), "ms", 300)


def why_not() -> str:
    """Why there can be no container of an image; empty when there can."""
    if os.geteuid() != 0:
        return "containers take root"
    absent = [program for program in ("apt-get", "runc") if shutil.which(program) is None]
    return f"{', '.join(absent)} is not installed" if absent else ""


async def made(base: Path) -> Image:
    """The image `plugins` for this machine."""
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    kept = os.environ.get("PLUGBAY_IMAGE_PACKAGES") or str(base / "packages")
    places = ("--out", str(base), "--rootfs", str(base / "rootfs"), "--packages", kept)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tools.image", "--arch", architecture, *places),
        cwd=REPOSITORY,
        stdout=asyncio.subprocess.DEVNULL,
    )
    if await process.wait():
        raise SystemExit("bench image: there is no image to measure")
    return Image(base / "plugbay-plugins", base / "rootfs")


def write_bundle(bundle: Path, image: Image, kubelet_root: Path, gophers: Path) -> Path:
    """An OCI bundle of the plugin, without capabilities and with a read-only root; returns its directory."""
    bundle.mkdir()
    spec: dict[str, Any] = {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": ["plugbay", *SERVE, "/gophers"],
            "env": ["PATH=/usr/local/bin:/usr/bin", "PYTHONDONTWRITEBYTECODE=1", "PYTHONNOUSERSITE=1"],
            "cwd": "/",
            "noNewPrivileges": True,
        },
        "root": {"path": str(image.rootfs), "readonly": True},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            _bound(kubelet_root, "/var/lib/kubelet", "rw"),
            _bound(gophers, "/gophers", "ro"),
        ],
        "linux": {"namespaces": [{"type": each} for each in _NAMESPACES]},
    }
    (bundle / "config.json").write_text(json.dumps(spec))
    return bundle


def _bound(source: Path, destination: str, how: str) -> dict[str, object]:
    return {"destination": destination, "type": "bind", "source": str(source), "options": ["rbind", how]}


async def start_ms(kubelet: FakeKubelet, bundle: Path, starts: int) -> float:
    """From the call of runc to the registration; the median."""
    taken = []
    for _ in range(starts):
        started = time.perf_counter()
        async with container(bundle):
            plugin = await kubelet.next_registration()
            taken.append(time.perf_counter() - started)
        await plugin.until_ended()
    return statistics.median(taken) * 1000


async def memory(image: Image, base: Path, gophers: Path, pace: Pace) -> AsyncIterator[Figure]:
    """What the plugin holds in the image, and outside it with this Python; at the same time."""
    async with AsyncExitStack() as up:
        inside, outside = base / "inside", base / "outside"
        kubelets = [await up.enter_async_context(fake_kubelet(KubeletPaths(root))) for root in (inside, outside)]
        contained = await up.enter_async_context(
            container(write_bundle(base / "inside-bundle", image, inside, gophers))
        )
        bare = await up.enter_async_context(
            python("-m", "plugbay", SERVE[0], "--root", str(outside), *SERVE[1:], str(gophers))
        )
        for kubelet in kubelets:
            await (await kubelet.next_registration()).next_list()
        await asyncio.sleep(SETTLING_S[pace])
        bare_mb = rss_mb(bare.pid)
        yield Figure("plugin_rss_mb_without_image", bare_mb, "MB", None)
        yield Figure("plugin_rss_mb_in_image", rss_mb(int(contained.read_text())), "MB", bare_mb + RSS_SLACK_MB)


@asynccontextmanager
async def container(bundle: Path) -> AsyncIterator[Path]:
    """A container until the block ends, by a file that has the pid of its first process once it runs."""
    name, pid = f"bench-{bundle.name}-{os.getpid()}", bundle / "pid"
    runc = ("runc", "--root", str(bundle / "runc"))
    process = await asyncio.create_subprocess_exec(
        *runc, "run", "--bundle", str(bundle), "--pid-file", str(pid), name, stdin=asyncio.subprocess.DEVNULL
    )
    try:
        yield pid
    finally:
        process.terminate()  # runc hands it on
        await ended(process)
        pid.unlink(missing_ok=True)


async def ended(process: asyncio.subprocess.Process) -> None:
    await asyncio.wait_for(process.wait(), 10)


async def manifest_ms(gophers: Path, times: int) -> float:
    """`plugbay manifest` for a ready-made plugin; the median."""
    target = ("directory", "--resource", RESOURCE, "--env", "Gopher", "--path", str(gophers))
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "plugbay", "manifest", "--image", "localhost/plugbay-plugins:0", *target),
            stdout=asyncio.subprocess.DEVNULL,
        )
        if await process.wait():
            raise SystemExit("bench image: `plugbay manifest` failed")
        taken.append(time.perf_counter() - started)
    return statistics.median(taken) * 1000
