"""An engine that a kubelet has already: it would end our pods."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from plugbay.errors import ContainerEngineUnusable
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import PodUid
from plugbay.node.config import CriConfig, KubeletEngine, NodeConfig
from plugbay.node.runtimes import cri as cri_choice
from plugbay.node.runtimes.choice import open_runtime
from plugbay.ops.clock import SystemClock
from plugbay.pods.node import read_machine
from plugbay.runtimes.cri.config import Conventions
from plugbay.runtimes.cri.sandboxes import CriSandboxes
from plugbay.testing.fakes.kubelet import fake_kubelet
from plugbay.wire.cri import CriClient
from plugbay.wire.generated import cri_v1_pb2 as v1
from tests.container_specs import sandbox_spec
from tests.unit.runtimes.cri.scripted_engine import ScriptedEngine

ENDS = "a kubelet ends every pod of its engine that it does not know"


async def run_pod_of_a_kubelet(engine: ScriptedEngine, name: str) -> None:
    metadata = v1.PodSandboxMetadata(name=name, namespace="prod", uid=name)
    config = v1.PodSandboxConfig(metadata=metadata, labels={"io.kubernetes.pod.uid": name})
    await engine.RunPodSandbox(v1.RunPodSandboxRequest(config=config))


async def start(sockets: Path, on_kubelet: KubeletEngine = KubeletEngine.REFUSE) -> None:
    """What a node does at its start."""
    config = NodeConfig(sockets / "node", cri=CriConfig(sockets / "cri", (), on_kubelet))
    config.root.mkdir(exist_ok=True)
    machine = await asyncio.to_thread(read_machine, config.root, max_pods=1, fake_numa_nodes=0)
    async with open_runtime(config, machine, environ={}, clock=SystemClock()):
        pass


async def test_engine_on_which_pods_of_a_kubelet_run_is_refused(engine: ScriptedEngine, sockets: Path) -> None:
    await run_pod_of_a_kubelet(engine, "one")
    with pytest.raises(ContainerEngineUnusable) as refused:
        await start(sockets)
    assert str(refused.value) == (
        f"there is no usable container engine at {sockets}/cri: 1 pod of a kubelet runs on it; {ENDS}; give the node "
        "an engine of its own, or --on-kubelet-engine use"
    )
    await run_pod_of_a_kubelet(engine, "two")
    with pytest.raises(ContainerEngineUnusable, match="2 pods of a kubelet run on it; "):
        await start(sockets)


async def test_it_is_used_by_an_option_and_the_log_warns(
    engine: ScriptedEngine, sockets: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await run_pod_of_a_kubelet(engine, "one")
    await start(sockets, KubeletEngine.USE)
    [warning] = [each.getMessage() for each in caplog.records if "kubelet" in each.getMessage()]
    assert warning == (
        f"{sockets}/cri: 1 pod of a kubelet runs on it; {ENDS}; the pods of this node may be ended at any time"
    )


async def test_pods_that_are_over_and_pods_of_our_nodes_are_no_sign_of_a_kubelet(
    engine: ScriptedEngine, client: CriClient, conventions: Conventions, sockets: Path
) -> None:
    await run_pod_of_a_kubelet(engine, "one")
    engine.kill_sandbox("s0")
    another = CriSandboxes(client, replace(conventions, node="another"))
    await another.run(sandbox_spec(PodUid("u"), "ns", "web"))
    await start(sockets)


async def test_engine_of_a_kubelet_without_pods_is_refused(
    engine: ScriptedEngine, sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock = sockets / "kubelet"
    monkeypatch.setattr(cri_choice, "STOCK_ROOT", stock)
    async with fake_kubelet(KubeletPaths(stock)) as kubelet:
        await start(sockets)  # a kubelet's engine is at one of the usual places
        monkeypatch.setattr(cri_choice, "CRI_SOCKETS", (sockets / "cri",))
        with pytest.raises(ContainerEngineUnusable, match=f"a kubelet answers at {stock}/device-plugins/kubelet.sock"):
            await start(sockets)
        await kubelet.stop()
        await start(sockets)
        await kubelet.start()
