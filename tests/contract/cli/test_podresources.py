"""``plugbay podresources`` against a service on its socket."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from plugbay.cli.main import run
from plugbay.kubelet.paths import KubeletPaths
from plugbay.manager.serving.podresources import AdmittedPods, serve_pod_resources
from plugbay.manager.serving.reader import PodResourcesReader
from plugbay.manager.state import HeldDevices, ManagerState
from plugbay.model.ids import ContainerName, DeviceId, PodUid, ResourceName
from plugbay.model.requests import ContainerKind, ContainerRequest, PodRequest
from plugbay.testing.clock import ManualClock
from tests.contract.conftest import Done, Plugbay

GPU = ResourceName("example.com/gpu")


async def ask(plugbay: Plugbay, state: ManagerState, *argv: str) -> Done:
    """What the command says of a node with a pod of one container.

    It is a process of its own, as for users.
    """
    pods = AdmittedPods()
    container = ContainerRequest(ContainerName("c"), ContainerKind.APP, {})
    pods.add(PodRequest(PodUid("u"), "default", "p", (container,)))
    path = KubeletPaths(plugbay.root).pod_resources_socket
    async with serve_pod_resources(path, PodResourcesReader(state), pods, clock=ManualClock()):
        return await plugbay("podresources", *argv)


def holding() -> ManagerState:
    state = ManagerState()
    state.restore(HeldDevices(PodUid("u"), ContainerName("c"), GPU, {1: (DeviceId("g0"), DeviceId("g1"))}, b""))
    return state


async def test_table_names_the_holder_of_each_resource(plugbay: Plugbay) -> None:
    table = (
        "NAMESPACE   POD   CONTAINER   RESOURCE          DEVICES   NUMA\n"
        "default     p     c           example.com/gpu   g0,g1     1\n"
    )
    assert await ask(plugbay, holding()) == (0, table, "")


async def test_json_is_the_answer(plugbay: Plugbay) -> None:
    path = KubeletPaths(plugbay.root).pod_resources_socket
    answer = await ask(plugbay, holding(), "--socket", str(path), "-o", "json")
    assert answer.code == 0
    (pod,) = json.loads(answer.out)["podResources"]
    assert [device["deviceIds"] for device in pod["containers"][0]["devices"]] == [["g0"], ["g1"]]


async def test_nothing_held_is_said_beside_the_output(plugbay: Plugbay) -> None:
    assert await ask(plugbay, ManagerState()) == (0, "", "No devices are held.\n")


def test_missing_socket_is_one_sentence(sockets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = sockets / "no.sock"
    assert run(["podresources", "--socket", str(missing)]) == 1
    assert capsys.readouterr().err == (
        f"plugbay: error: {missing}: no PodResources socket here (No such file or directory)\n"
    )


def test_what_is_no_socket_is_one_sentence(sockets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["podresources", "--socket", str(sockets)]) == 1
    assert capsys.readouterr().err == f"plugbay: error: {sockets}: no PodResources socket here (Not a socket)\n"


def test_socket_without_a_service_is_one_sentence(sockets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = sockets / "left.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert run(["podresources", "--socket", str(path)]) == 1
    assert f"{path}: cannot be asked for pods: rpc error: code = Unavailable" in capsys.readouterr().err
