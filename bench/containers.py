"""What real containers cost: a node with a device node for each pod, on each engine, and the bare engine beside it.

The own share is what a pod takes from its request to the first line of its log, less what the engine takes for the
same by itself: with oci it runs the same bundle, with cri it is asked for the same sandbox and container, which has
the CNI plugins in it, too. Without root, or an engine that works, there is nothing to measure.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

from bench.bare_cri import run_bare
from bench.container_node import MANY, ContainerNode, container_node
from bench.figures import Figure, Pace
from plugbay.errors import EngineUnusable
from plugbay.runtimes.oci.engines import OciEngine, choose_engine
from tests.e2e.containerd import containerd, why_not
from tests.e2e.images import BUSYBOX

_OCI_TARGET_MS: Final = 350
_CRI_TARGET_MS: Final = 900
_OWN_TARGET_MS: Final = 60


async def measure(pace: Pace) -> AsyncIterator[Figure]:
    runs = 15 if pace is Pace.FULL else 3
    for figures in (_oci(runs), _cri(runs)):
        while (figure := await asyncio.to_thread(next, figures, None)) is not None:
            yield figure


def _oci(runs: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="pb", dir="/tmp") as directory:
        try:
            engine = choose_engine(None, search_path=os.environ["PATH"], state_dir=Path(directory) / "bare")
        except EngineUnusable as error:
            print(f"containers: nothing to measure with oci: {error}", file=sys.stderr)
            return
        root = Path(directory) / "root"
        with container_node(root, "--runtime", "oci") as node:
            total_ms, bare_ms = [], []
            for number in range(runs + 1):  # by turns: both meet the same machine
                with node.pod_running(f"one-{number}") as took_ms:
                    total_ms.append(took_ms)
                    bundle = _copy_bundle(root, Path(directory) / f"bundle-{number}")  # of things that go with the pod
                    bare_ms.append(_run_bundle(engine, bundle, f"plugbay-bench-{number}"))
            yield from _figures("oci", total_ms, bare_ms, node, target_ms=_OCI_TARGET_MS)


def _cri(runs: int) -> Iterator[Figure]:
    if problem := why_not():
        print(f"containers: nothing to measure with cri: {problem}", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory(prefix="pb", dir="/tmp") as directory:
        base = Path(directory) / "c"
        base.mkdir()
        with containerd(base) as daemon:
            options = ("--runtime", "cri", "--cri-socket", str(daemon.socket))
            with container_node(Path(directory) / "root", *options, image=BUSYBOX) as node:
                total_ms, bare_ms = [], []
                for number in range(runs + 1):  # by turns: both meet the same machine
                    with node.pod_running(f"one-{number}") as took_ms:
                        total_ms.append(took_ms)
                    bare = run_bare(daemon.socket, Path(directory) / "bare", BUSYBOX, f"bare-{number}")
                    bare_ms.append(asyncio.run(bare))
                yield from _figures("cri", total_ms, bare_ms, node, target_ms=_CRI_TARGET_MS)


def _figures(
    runtime: str, total_ms: list[float], bare_ms: list[float], node: ContainerNode, *, target_ms: float
) -> Iterator[Figure]:
    """The first run of each is left out: it is slower than all others."""
    total, bare = statistics.median(total_ms[1:]), statistics.median(bare_ms[1:])
    yield Figure(f"{runtime}_pod_first_line_ms", total, "ms", target_ms)
    yield Figure(f"{runtime}_engine_alone_ms", bare, "ms", None)
    yield Figure(f"{runtime}_own_share_ms", total - bare, "ms", _OWN_TARGET_MS)
    yield Figure(f"{runtime}_pods_{MANY}_started_and_removed_s", node.many(), "s", None)
    for warning in (warnings := node.warnings()):
        print(f"containers: {runtime}: {warning}", file=sys.stderr)
    yield Figure(f"{runtime}_pods_errors", len(warnings), "errors", 0)


def _copy_bundle(root: Path, target: Path) -> Path:
    (instance,) = (root / "oci" / "containers").iterdir()
    target.mkdir()
    shutil.copy(instance / "config.json", target)
    shutil.copytree(instance / "rootfs", target / "rootfs", symlinks=True)
    return target


def _run_bundle(engine: OciEngine, bundle: Path, name: str) -> float:
    config: Any = json.loads((bundle / "config.json").read_bytes())
    config["linux"]["cgroupsPath"] = f"/{name}"
    (bundle / "config.json").write_text(json.dumps(config))
    start = time.perf_counter()
    argv = engine.argv("run", "--bundle", str(bundle), name)
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        took_ms = (time.perf_counter() - start) * 1000
        subprocess.run(engine.argv("kill", name, "KILL"), check=True)
    return took_ms
