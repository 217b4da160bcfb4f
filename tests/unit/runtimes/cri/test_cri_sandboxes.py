"""Sandboxes that an engine makes: replaced when they died, once, and given up with all they left."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from plugbay.errors import RpcCode, RpcFailed, SandboxFailed
from plugbay.kernel.cgroups import hierarchies
from plugbay.model.ids import PodUid
from plugbay.runtimes.cri.config import Conventions, cgroup_name
from plugbay.runtimes.cri.sandboxes import CriSandboxes
from plugbay.runtimes.sandboxes import Network
from plugbay.wire.cri import CriClient
from plugbay.wire.generated import cri_v1_pb2 as v1
from tests.container_specs import sandbox_spec, wanting
from tests.unit.runtimes.cri.scripted_engine import ScriptedEngine

UID = PodUid("0c1-2")
SPEC = sandbox_spec(UID, "ns", "web")


@pytest.fixture
def sandboxes(client: CriClient, conventions: Conventions) -> CriSandboxes:
    return CriSandboxes(client, conventions)


async def test_a_sandbox_in_order_is_taken_over(engine: ScriptedEngine, sandboxes: CriSandboxes) -> None:
    assert await sandboxes.run(SPEC) == ("10.0.0.1", "fd00::1")
    assert await sandboxes.run(SPEC) == ("10.0.0.1", "fd00::1")
    assert len(engine.asked("RunPodSandbox")) == 1


async def test_one_that_died_is_replaced_by_one_with_addresses_of_its_own(
    engine: ScriptedEngine, sandboxes: CriSandboxes
) -> None:
    await sandboxes.run(SPEC)
    engine.kill_sandbox("s0")
    engine.ips = ["10.0.0.2"]
    assert await sandboxes.run(SPEC) == ("10.0.0.2",)
    current = sandboxes.current(UID)
    assert current is not None
    assert (current.id, current.ips, current.config.attempt) == ("s1", ("10.0.0.2",), 1)
    assert [each.pod_sandbox_id for each in engine.asked("StopPodSandbox")] == ["s0"]


async def test_one_that_died_is_removed_once_it_holds_no_container(
    engine: ScriptedEngine, sandboxes: CriSandboxes, client: CriClient
) -> None:
    await sandboxes.run(SPEC)
    labels = {"io.plugbay.node": "n", "io.kubernetes.pod.uid": UID}
    config = v1.ContainerConfig(metadata=v1.ContainerMetadata(name="main"), labels=labels)
    await engine.CreateContainer(v1.CreateContainerRequest(pod_sandbox_id="s0", config=config))
    engine.kill_sandbox("s0")
    await sandboxes.run(SPEC)
    engine.kill_sandbox("s1")
    await sandboxes.run(SPEC)
    assert list(engine.sandboxes) == ["s0", "s2"], "a container in the first one can still be looked at"
    await client.remove_container("c0")
    await sandboxes.run(SPEC)
    assert list(engine.sandboxes) == ["s2"]
    assert [each.pod_sandbox_id for each in engine.asked("StopPodSandbox")] == ["s0", "s0", "s1"]


async def test_one_whose_making_was_broken_off_and_went_on_is_ended(
    engine: ScriptedEngine, sandboxes: CriSandboxes
) -> None:
    """It would keep the pod's host ports, and an address."""
    engine.failures["RunPodSandbox"] = [RpcFailed(RpcCode.UNKNOWN, 'name "web_ns_0c1-2_0" is reserved for "late"')]
    await sandboxes.run(SPEC)
    late = v1.PodSandboxStatus()
    late.CopyFrom(engine.sandboxes["s0"])
    late.id, late.metadata.attempt, late.created_at = "late", 0, late.created_at + 1
    engine.sandboxes["late"] = late
    await sandboxes.run(SPEC)
    assert list(engine.sandboxes) == ["s0"]
    assert [each.pod_sandbox_id for each in engine.asked("StopPodSandbox")] == ["late"]


async def test_old_ones_that_the_engine_keeps_hold_nothing_up(engine: ScriptedEngine, sandboxes: CriSandboxes) -> None:
    await sandboxes.run(SPEC)
    engine.kill_sandbox("s0")
    engine.failures["RemovePodSandbox"] = [RpcFailed(RpcCode.UNKNOWN, "device or resource busy")]
    engine.ips = ["10.0.0.2"]
    assert await sandboxes.run(SPEC) == ("10.0.0.2",)
    await sandboxes.run(SPEC)
    assert list(engine.sandboxes) == ["s1"]


async def test_containers_that_want_it_at_once_get_the_same_one(
    engine: ScriptedEngine, sandboxes: CriSandboxes
) -> None:
    await sandboxes.run(SPEC)
    engine.kill_sandbox("s0")
    async with asyncio.TaskGroup() as tasks:
        for _ in range(5):
            tasks.create_task(sandboxes.run(SPEC))
    assert len(engine.asked("RunPodSandbox")) == 2


async def test_one_without_an_address_is_replaced_unless_it_has_the_hosts(
    engine: ScriptedEngine, sandboxes: CriSandboxes
) -> None:
    engine.ips = [""]
    await sandboxes.run(SPEC)
    await sandboxes.run(SPEC)
    assert len(engine.asked("RunPodSandbox")) == 2
    on_host = sandbox_spec(PodUid("h"), "ns", "host", network=Network.HOST)
    await sandboxes.run(on_host)
    await sandboxes.run(on_host)
    assert len(engine.asked("RunPodSandbox")) == 3


async def test_a_name_that_the_engine_still_keeps_is_gone_round(
    engine: ScriptedEngine, sandboxes: CriSandboxes
) -> None:
    engine.failures["RunPodSandbox"] = [RpcFailed(RpcCode.UNKNOWN, 'name "web_ns_0c1-2_0" is reserved for "x"')]
    await sandboxes.run(SPEC)
    assert [each.config.metadata.attempt for each in engine.asked("RunPodSandbox")] == [0, 1]


async def test_runtime_class_is_the_engines_handler_also_when_a_name_is_gone_round(
    engine: ScriptedEngine, sandboxes: CriSandboxes
) -> None:
    engine.failures["RunPodSandbox"] = [RpcFailed(RpcCode.UNKNOWN, 'name "web_ns_0c1-2_0" is reserved for "x"')]
    await sandboxes.run(wanting(SPEC, runtime_class="kata"))
    await sandboxes.run(sandbox_spec(PodUid("plain"), "ns", "web"))
    assert [each.runtime_handler for each in engine.asked("RunPodSandbox")] == ["kata", "kata", ""]


async def test_what_the_engine_refuses_is_said(engine: ScriptedEngine, sandboxes: CriSandboxes) -> None:
    engine.failures["RunPodSandbox"] = [RpcFailed(RpcCode.UNKNOWN, "cni plugin not initialized")]
    with pytest.raises(SandboxFailed, match="cni plugin not initialized"):
        await sandboxes.run(SPEC)


async def test_none_is_made_while_there_is_no_network_for_it(engine: ScriptedEngine, sandboxes: CriSandboxes) -> None:
    engine.network_problem = "cni plugin not initialized"
    with pytest.raises(SandboxFailed, match=r"network not ready: .*:cni plugin not initialized$"):
        await sandboxes.run(SPEC)
    await sandboxes.run(sandbox_spec(PodUid("h"), "ns", "host", network=Network.HOST))
    assert [each.config.metadata.name for each in engine.asked("RunPodSandbox")] == ["host"]
    engine.network_problem = ""
    await sandboxes.run(SPEC)
    engine.network_problem = "cni plugin not initialized"
    await sandboxes.run(SPEC)  # it has one already


async def test_nothing_is_left_and_stopping_what_is_gone_is_no_mistake(
    engine: ScriptedEngine, sandboxes: CriSandboxes, sockets: Path
) -> None:
    await sandboxes.run(SPEC)
    assert await sandboxes.pods() == {UID}
    engine.failures["StopPodSandbox"] = [RpcFailed(RpcCode.NOT_FOUND, "not found")]
    await sandboxes.remove(UID)
    await sandboxes.remove(UID)
    assert engine.sandboxes == {}
    assert await sandboxes.pods() == frozenset()
    assert list((sockets / "logs").iterdir()) == []


async def test_others_sandboxes_are_not_ours(engine: ScriptedEngine, sandboxes: CriSandboxes) -> None:
    metadata = v1.PodSandboxMetadata(uid="other")
    engine.sandboxes["o"] = v1.PodSandboxStatus(id="o", metadata=metadata, labels={"io.plugbay.node": "m"})
    assert await sandboxes.pods() == frozenset()


async def test_one_that_somebody_removed_is_replaced(engine: ScriptedEngine, sandboxes: CriSandboxes) -> None:
    await sandboxes.run(SPEC)
    engine.sandboxes.clear()
    engine.ips = ["10.0.0.3"]
    assert await sandboxes.run(SPEC) == ("10.0.0.3",)


@pytest.mark.root
async def test_processes_that_the_engine_forgot_are_killed(
    engine: ScriptedEngine, sandboxes: CriSandboxes, conventions: Conventions, tmp_path: Path
) -> None:
    """As when the start of a container was broken off in the middle."""
    uid = PodUid(tmp_path.name)
    await sandboxes.run(sandbox_spec(uid, "ns", "web"))
    with forgotten_process(cgroup_name(conventions, uid)) as (process, cgroup):
        await sandboxes.remove(uid)
        assert process.wait(timeout=20) == -signal.SIGKILL
        assert not cgroup.exists()
    assert engine.sandboxes == {}


@contextmanager
def forgotten_process(name: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A process in a cgroup of a container below ``name``, and what is called so."""
    for root in hierarchies(proc_root=Path("/proc")):
        cgroup = root / name
        try:
            (cgroup / "c").mkdir(parents=True)
        except OSError:
            continue
        with subprocess.Popen(["sleep", "1000"]) as process:
            try:
                (cgroup / "c/cgroup.procs").write_text(str(process.pid))
                yield process, cgroup
                return
            except OSError:  # of another kind: it takes no process as it is
                (cgroup / "c").rmdir()
                cgroup.rmdir()
            finally:
                process.kill()
    pytest.skip("no cgroup can be made here")
