"""The clients that Python has for Kubernetes, each doing on our node what scripts and operators do."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from plugbay.errors import UsageError
from plugbay.testing import Kubelet

SLEEPER: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "sleeper", "namespace": "default", "labels": {"app": "sleeper"}},
    "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "none", "command": ["sh", "-c", "echo hello; exec sleep 600"]}],
    },
}


# The libraries leave sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """What a library leaves is collected while its warnings are ignored."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def served() -> Iterator[Kubelet]:
    with Kubelet(api=True, within_s=60) as kubelet:
        yield kubelet


def until_printed(read: Callable[[], str]) -> None:
    """Wait until the pod's log is what it prints: a container is ready before its program has printed anything."""
    deadline = time.monotonic() + 20
    while (log := read()) != "hello\n" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert log == "hello\n"


async def until_told(read: Callable[[], Awaitable[str]]) -> None:
    """As `until_printed`."""
    deadline = time.monotonic() + 20
    while True:
        log = await read()
        if log == "hello\n" or time.monotonic() > deadline:
            break
        await asyncio.sleep(0.05)
    assert log == "hello\n"


def test_kubernetes_works_on_the_node(served: Kubelet) -> None:
    client = pytest.importorskip("kubernetes.client")
    watch = pytest.importorskip("kubernetes.watch")
    stream = pytest.importorskip("kubernetes.stream").stream
    with served.clients.kubernetes() as connection:
        core = client.CoreV1Api(connection)
        assert [node.metadata.name for node in core.list_node().items] == ["test-node"]
        listed = core.list_namespaced_pod("default")
        core.create_namespaced_pod("default", SLEEPER)
        for event in watch.Watch().stream(
            core.list_namespaced_pod, "default", resource_version=listed.metadata.resource_version, timeout_seconds=60
        ):
            if event["object"].status.phase == "Running":
                break
        core.patch_namespaced_pod("sleeper", "default", {"metadata": {"labels": {"seen": "yes"}}})
        found = core.list_namespaced_pod("default", label_selector="seen=yes", field_selector="status.phase=Running")
        assert [pod.metadata.labels for pod in found.items] == [{"app": "sleeper", "seen": "yes"}]
        output = stream(
            core.connect_get_namespaced_pod_exec,
            "sleeper",
            "default",
            command=["sh", "-c", "echo inside; echo wrong >&2"],
            stdout=True,
            stderr=True,
            stdin=False,
            tty=False,
        )
        assert sorted(output.split()) == ["inside", "wrong"]
        until_printed(lambda: core.read_namespaced_pod_log("sleeper", "default"))
        with pytest.raises(client.ApiException) as refused:
            core.create_namespaced_pod("default", SLEEPER)
        assert refused.value.status == 409
        seen = core.list_namespaced_pod("default").metadata.resource_version
        core.delete_namespaced_pod("sleeper", "default", grace_period_seconds=0)
        for event in watch.Watch().stream(
            core.list_namespaced_pod, "default", resource_version=seen, timeout_seconds=60
        ):
            if event["type"] == "DELETED":
                break
        assert core.list_namespaced_pod("default").items == []


async def test_kubernetes_asyncio_works_on_the_node(served: Kubelet) -> None:
    client = pytest.importorskip("kubernetes_asyncio.client")
    watch = pytest.importorskip("kubernetes_asyncio.watch")
    ws_client = pytest.importorskip("kubernetes_asyncio.stream").WsApiClient
    async with served.clients.kubernetes_asyncio() as connection:
        core = client.CoreV1Api(connection)
        listed = await core.list_namespaced_pod("default")
        await core.create_namespaced_pod("default", SLEEPER)
        async with watch.Watch() as changes:
            async for event in changes.stream(
                core.list_namespaced_pod,
                "default",
                resource_version=listed.metadata.resource_version,
                timeout_seconds=60,
            ):
                if event["object"].status.phase == "Running":
                    break
        await core.patch_namespaced_pod("sleeper", "default", {"metadata": {"labels": {"seen": "yes"}}})
        [pod] = (await core.list_namespaced_pod("default", label_selector="seen=yes")).items
        assert pod.metadata.name == "sleeper"
        async with ws_client(connection.configuration) as over_websocket:
            output = await client.CoreV1Api(over_websocket).connect_get_namespaced_pod_exec(
                "sleeper", "default", command=["echo", "inside"], stdout=True, stderr=True, stdin=False, tty=False
            )
        assert output == "inside\n"
        await until_told(lambda: core.read_namespaced_pod_log("sleeper", "default"))
        seen = (await core.list_namespaced_pod("default")).metadata.resource_version
        await core.delete_namespaced_pod("sleeper", "default", grace_period_seconds=0)
        async with watch.Watch() as changes:
            async for event in changes.stream(
                core.list_namespaced_pod, "default", resource_version=seen, timeout_seconds=60
            ):
                if event["type"] == "DELETED":
                    break
            else:
                raise AssertionError("no end of the pod was told")


def test_lightkube_works_on_the_node(served: Kubelet) -> None:
    pytest.importorskip("lightkube")
    from lightkube import ApiError
    from lightkube.resources.core_v1 import Node, Pod

    client = served.clients.lightkube()
    assert [node.metadata.name for node in client.list(Node) if node.metadata] == ["test-node"]
    sleeper: Pod = Pod.from_dict(SLEEPER)  # type: ignore[assignment]
    client.create(sleeper)
    client.wait(Pod, "sleeper", for_conditions=["Ready"])
    client.patch(Pod, "sleeper", {"metadata": {"labels": {"seen": "yes"}}})
    [pod] = client.list(Pod, labels={"seen": "yes"}, fields={"metadata.name": "sleeper"})
    assert pod.status
    assert pod.status.phase == "Running"
    until_printed(lambda: "".join(client.log("sleeper")))
    with pytest.raises(ApiError) as refused:
        client.create(sleeper)
    assert refused.value.status.reason == "AlreadyExists"
    assert pod.metadata
    client.delete(Pod, "sleeper", grace_period=0)
    for kind, _ in client.watch(Pod, server_timeout=60, resource_version=pod.metadata.resourceVersion):
        if kind == "DELETED":
            break
    assert list(client.list(Pod)) == []


# It warns of versions that are newer than itself.
@pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported:UserWarning")
async def test_kr8s_works_on_the_node(served: Kubelet) -> None:
    pytest.importorskip("kr8s")
    from kr8s.asyncio.objects import Pod

    api = await served.clients.kr8s()
    pod = await Pod(SLEEPER, api=api)
    await pod.create()
    await pod.wait("condition=Ready")
    await pod.patch({"metadata": {"labels": {"seen": "yes"}}})
    found = [each async for each in api.get("pods", label_selector="seen=yes")]
    assert [str(each) for each in found] == ["sleeper"]

    async def printed() -> str:
        return "".join([f"{line}\n" async for line in pod.logs()])

    await until_told(printed)
    done = await pod.exec(["echo", "inside"])
    assert done.stdout == b"inside\n"
    await pod.delete(grace_period=0)
    await pod.wait("delete")


def test_clients_go_on_after_a_restart() -> None:
    pytest.importorskip("lightkube")
    from lightkube.resources.core_v1 import Node

    with Kubelet(api=True, within_s=60) as kubelet:
        client = kubelet.clients.lightkube()
        assert len(list(client.list(Node))) == 1
        kubelet.restart()
        assert len(list(client.list(Node))) == 1


def test_a_kubelet_without_an_api_says_so() -> None:
    with Kubelet() as kubelet, pytest.raises(UsageError, match="open it with api=True"):
        _ = kubelet.clients


def test_a_library_that_is_not_installed_is_named(served: Kubelet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightkube", None)
    with pytest.raises(UsageError, match="pip install lightkube"):
        served.clients.lightkube()


async def test_a_client_that_blocks_is_used_in_a_thread_by_async_tests(served: Kubelet) -> None:
    client = pytest.importorskip("kubernetes.client")
    nodes = await asyncio.to_thread(client.CoreV1Api(served.clients.kubernetes()).list_node)
    assert len(nodes.items) == 1
