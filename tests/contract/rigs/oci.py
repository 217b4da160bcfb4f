"""What tests of the oci runtime share: real engines and containers, of which nothing may be left when a test ends."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

from plugbay.errors import EngineUnusable
from plugbay.kernel.cgroups import accounts_swap, hierarchies, remove_cgroup
from plugbay.model.ids import ContainerName, PodUid
from plugbay.runtimes.exec_input import ExecInput
from plugbay.runtimes.oci.confinement import Grounds, OciConfinement, pod_cgroup
from plugbay.runtimes.oci.engines import choose_engine
from plugbay.runtimes.oci.host_etc import HostEtc
from plugbay.runtimes.oci.rootfs import HostView
from plugbay.runtimes.oci.shares import UNSHARED
from plugbay.runtimes.port import ContainerId, ContainerSpec, ContainerState, ExecExit, ExecStream
from plugbay.runtimes.supervised.runtime import SupervisedRuntime
from tests.container_specs import container_spec
from tests.contract.rigs.process import DEADLINE_S, PROC, start_in_killed_node

POD = PodUid("0c1-oci-test")


@cache
def why_not() -> str:
    if os.geteuid() != 0:
        return "needs root"
    try:
        choose_engine(None, search_path=os.environ["PATH"], state_dir=Path("/nowhere"))
    except EngineUnusable as error:
        return str(error)
    return ""


needs_fuse = pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="needs /dev/fuse")
needs_limited_swap = pytest.mark.skipif(
    not accounts_swap(proc_root=PROC) and len((PROC / "swaps").read_text().splitlines()) > 1,
    reason="whoever wants too much memory would fill the swap first, which nobody can limit here",
)


class Places:
    """Where one test's containers are, as a later node finds them too."""

    def __init__(self, root: Path) -> None:
        self.instances = root / "containers"
        self.engine = choose_engine(None, search_path=os.environ["PATH"], state_dir=root / "oci")
        self.cdi = root / "cdi"
        (root / "layer").mkdir(exist_ok=True)
        self.view = HostView(etc=HostEtc(root / "etc"), layer=root / "layer")
        self.cgroup_parent = f"plugbay-test-{os.getpid()}"

    def runtime(self) -> SupervisedRuntime:
        grounds = Grounds(self.view, self.cgroup_parent, (), (self.cdi,), shares_of=lambda pod: UNSHARED)
        return SupervisedRuntime(
            self.instances,
            environ=os.environ,
            clock=lambda: datetime.now(UTC),
            confinement=OciConfinement(self.engine, grounds),
        )


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    made = Places(tmp_path)
    yield made
    until_nothing(lambda: remove_cgroup(pod_cgroup(made.cgroup_parent, POD), proc_root=PROC))
    assert not list(made.engine.state_dir.glob("*")), "the engine knows no container any more"
    cgroups = [each for root in hierarchies(proc_root=PROC) for each in root.glob(f"{made.cgroup_parent}-*")]
    assert cgroups == []
    assert str(tmp_path) not in (PROC / "self/mountinfo").read_text()
    until_nothing(lambda: [each for each in PROC.glob("[0-9]*/cmdline") if _mentions(each, tmp_path)])


def until_nothing(left: Callable[[], Sequence[Path]]) -> None:
    """What was killed is gone a little later, and leaves its cgroup later still, of which nothing tells."""
    deadline = time.monotonic() + DEADLINE_S
    while there := left():
        assert time.monotonic() < deadline, f"left behind: {there}"
        time.sleep(0.02)


def _mentions(cmdline: Path, path: Path) -> bool:
    try:
        return bytes(path) in cmdline.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def spec() -> ContainerSpec:
    return container_spec("sleep", "600", uid=POD, pod="gopher-pod", name=ContainerName("gopher"), image="busybox")


@asynccontextmanager
async def runtime_on(places: Places) -> AsyncIterator[SupervisedRuntime]:
    runtime = places.runtime()
    async with asyncio.timeout(DEADLINE_S):
        try:
            yield runtime
        finally:
            for state in await runtime.list():
                await runtime.remove(state.id)


async def whole_log(runtime: SupervisedRuntime, container: ContainerId) -> str:
    return b"".join([chunk async for chunk in runtime.log(container)]).decode()


async def output_of(runtime: SupervisedRuntime, spec: ContainerSpec) -> str:
    """What a container that ends by itself wrote."""
    state = await runtime.start(spec)
    ended = await runtime.wait(state.id)
    text = await whole_log(runtime, state.id)
    assert ended.exit_code == 0, text
    return text


async def run(
    runtime: SupervisedRuntime, container: ContainerId, *argv: str, given: ExecInput | None = None
) -> tuple[str, str, int]:
    texts = dict.fromkeys(ExecStream, b"")
    async for item in runtime.exec(container, argv, given):
        if isinstance(item, ExecExit):
            return texts[ExecStream.STDOUT].decode(), texts[ExecStream.STDERR].decode(), item.exit_code
        texts[item.stream] += item.chunk
    raise AssertionError("no exit")


def processes_of(places: Places, container: ContainerId) -> dict[str, int]:
    record = json.loads((places.instances / container / "process.json").read_bytes())
    inner = int((places.instances / container / "pid").read_text())
    return {role: record[role]["pid"] for role in ("wrapper", "process")} | {"inner": inner}


def processes_in(places: Places) -> set[int]:
    """All in the containers of `POD`."""
    pod = pod_cgroup(places.cgroup_parent, POD)
    listings = [each for root in hierarchies(proc_root=PROC) for each in root.glob(f"{pod}/*/cgroup.procs")]
    return {int(pid) for each in listings for pid in each.read_text().split()}


def write_cdi(places: Places, kind: str, edits: dict[str, object], devices: dict[str, dict[str, object]]) -> None:
    places.cdi.mkdir(exist_ok=True)
    content = {
        "cdiVersion": "0.7.0",
        "kind": kind,
        "containerEdits": edits,
        "devices": [{"name": name, "containerEdits": each} for name, each in devices.items()],
    }
    (places.cdi / f"{kind.replace('/', '-')}.json").write_text(json.dumps(content))


NODE = """
import asyncio, pickle, sys
from tests.contract.rigs.oci import Places

async def main():
    spec, root = pickle.load(sys.stdin.buffer)
    places = Places(root)
    places.cgroup_parent = sys.argv[1]
    state = await places.runtime().start(spec)
    sys.stdout.buffer.write(pickle.dumps(state))
    sys.stdout.buffer.flush()
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def start_and_die(places: Places, spec: ContainerSpec) -> ContainerState:
    """Start a container in a node that is SIGKILLed as soon as it runs."""
    return await start_in_killed_node(NODE, places.cgroup_parent, given=(spec, places.instances.parent))
