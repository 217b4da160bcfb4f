"""A test's kubelet that runs pods, as plain processes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from plugbay import Device, plugin
from plugbay.errors import InvalidManifest, PodExists, UsageError
from plugbay.testing import ExpectationFailed, Kubelet, local_kubelet

CARD = "example.com/card"
RUNS_S = 60.0
"""A pod's wrapper is a Python program, beside four workers of tests on two cores."""


@plugin(CARD)
def cards() -> list[Device]:
    return [Device("card0", env={"CARD": "0"}), Device("card1", env={"CARD": "1"})]


async def test_pod_runs_with_its_devices() -> None:
    async with local_kubelet(node=True, within_s=RUNS_S) as kubelet:
        await kubelet.plugin(cards)
        pod = await kubelet.run({CARD: 1}, command=["sh", "-c", "echo card $CARD; exit 3"])
        assert (pod.phase, pod.exit_codes, pod.logs) == ("Failed", {"app": 3}, {"app": "card 0\n"})
        assert kubelet.calls("Allocate") == [{"container_requests": [{"devices_ids": ["card0"]}]}]
        again = await kubelet.run({CARD: 2}, command=["true"], name="both")
        assert (again.name, again.phase) == ("both", "Succeeded")
        with pytest.raises(PodExists):
            await kubelet.run({CARD: 2}, command=["true"], name="both")


def test_manifest_runs_from_code_that_is_not_async(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(f"""
apiVersion: v1
kind: Pod
metadata: {{name: trainer}}
spec:
  restartPolicy: Never
  initContainers:
  - name: prepare
    command: [{sys.executable}, -c, print("ready")]
  containers:
  - name: main
    command: [sh, -c, "echo $CARD"]
    resources: {{limits: {{{CARD}: 1}}}}
""")
    with Kubelet(node=True, within_s=RUNS_S) as kubelet:
        kubelet.plugin(cards)
        pod = kubelet.run(path)
        assert (pod.phase, pod.logs) == ("Succeeded", {"prepare": "ready\n", "main": "0\n"})
        kubelet.restart()
        assert kubelet.allocatable == {CARD: 2}


async def test_pod_that_does_not_end_is_told_of_and_killed() -> None:
    async with local_kubelet(node=True) as kubelet:
        await kubelet.plugin(cards, within_s=RUNS_S)
        with pytest.raises(ExpectationFailed, match=r"(?s)pod pod-1 has not ended within 1 s.*app: (running|waiting)"):
            await kubelet.run({CARD: 1}, command=["sleep", "1000"], within_s=1)
        with pytest.raises(ExpectationFailed, match=r"Insufficient example\.com/card"):
            await kubelet.run({CARD: 3}, command=["true"], within_s=3)
        root = kubelet.paths.root
    assert not await asyncio.to_thread(root.exists)


async def test_what_cannot_run_is_refused_in_a_sentence() -> None:
    async with local_kubelet(node=True) as kubelet:
        with pytest.raises(UsageError, match="say what the pod runs"):
            await kubelet.run({CARD: 1})
        with pytest.raises(UsageError, match="a manifest names its commands itself"):
            await kubelet.run("kind: Pod", command=["true"])
        with pytest.raises(InvalidManifest):
            await kubelet.run("kind: Nonsense")
        with pytest.raises(UsageError, match="a node admits the pods that it runs"):
            await kubelet.admit({CARD: 1})
    async with local_kubelet() as kubelet:
        with pytest.raises(UsageError, match="open it with node=True"):
            await kubelet.run({CARD: 1}, command=["true"])
    with pytest.raises(UsageError, match="leave as_kubelet out"):
        Kubelet(node=True, as_kubelet="1.30")
