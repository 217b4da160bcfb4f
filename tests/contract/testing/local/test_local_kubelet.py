"""The kubelet of a test, in an event loop: plugins of this process, pods, restarts, waits and faults."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from plugbay import Assignment, ContainerEdits, Device, DevicePlugin, plugin, unhealthy
from plugbay.errors import AdmissionError, InvalidManifest, PathUnusable, PodNotFound, UnusableTopology, UsageError
from plugbay.testing import ExpectationFailed, KubeletPaths, PluginNotReady, RpcCode, local_kubelet
from plugbay.testing.fakes.plugin import fake_plugin, refusing

CARD = "example.com/card"
READY_S = 30.0
"""For a plugin of a kubelet whose waits are meant to end in vain."""


@plugin(CARD)
def cards() -> list[Device]:
    return [Device(f"card{number}", env={"CARD": str(number)}, numa_nodes=(number % 2,)) for number in range(2)]


class Sick(DevicePlugin):
    """Its devices are as healthy as the test says."""

    resource_name = CARD

    def __init__(self) -> None:
        self.devices = [Device("card0"), Device("card1")]

    def discover(self) -> Sequence[Device]:
        return self.devices


async def test_admitted_pod_has_the_edits_of_its_devices() -> None:
    async with local_kubelet() as kubelet:
        await kubelet.plugin(cards)
        pod = await kubelet.admit({CARD: 1})
        assert pod["app"].env == {"CARD": "0"}
        assert pod.devices == {"app": {CARD: ("card0",)}}
        assert kubelet.capacity == kubelet.allocatable == {CARD: 2}
        assert kubelet.health == {CARD: {"card0": "Healthy", "card1": "Healthy"}}
        assert kubelet.calls("Allocate") == [{"container_requests": [{"devices_ids": ["card0"]}]}]


async def test_pod_is_refused_in_the_words_of_a_kubelet_and_a_pod_that_ended_gives_its_devices_back() -> None:
    async with local_kubelet() as kubelet:
        await kubelet.plugin(cards)
        pod = await kubelet.admit({CARD: 2}, name="greedy")
        with pytest.raises(AdmissionError, match=f"unavailable for {CARD}. Requested: 1, Available: 0"):
            await kubelet.admit({CARD: 1})
        await kubelet.end("greedy")
        assert (await kubelet.admit({CARD: 1})).devices["app"][CARD] == ("card0",)
        with pytest.raises(PodNotFound):
            await kubelet.end(pod)


async def test_init_containers_leave_their_devices_to_containers_and_sidecars_do_not() -> None:
    async with local_kubelet() as kubelet:
        await kubelet.plugin(cards)
        pod = await kubelet.admit(
            {"train": {CARD: 1}, "log": {}}, init={"prepare": {CARD: 1}}, sidecars={"watch": {CARD: 1}}
        )
        held = {name: by_resource.get(CARD) for name, by_resource in pod.devices.items()}
        assert held["prepare"] == held["watch"]
        assert held["train"] not in (held["watch"], None)
        assert held["log"] is None


MANIFEST = f"""
apiVersion: v1
kind: Pod
metadata: {{name: trainer, namespace: ml}}
spec:
  containers:
  - name: main
    image: busybox
    resources: {{limits: {{{CARD}: 1, cpu: 1}}}}
"""


async def test_pod_comes_as_a_manifest_in_any_form(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(MANIFEST)
    as_mapping = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "job-"},
        "spec": {"containers": [{"name": "main", "image": "busybox", "resources": {"limits": {CARD: 1}}}]},
    }
    async with local_kubelet() as kubelet:
        await kubelet.plugin(cards)
        for form in (MANIFEST, path, str(path)):
            pod = await kubelet.admit(form)
            assert (pod.namespace, pod.name) == ("ml", "trainer")
            assert pod["main"].env == {"CARD": "0"}
            await kubelet.end(pod)
        assert (await kubelet.admit(as_mapping)).name == "job-00004"


@pytest.mark.parametrize(
    ("pod", "error"),
    [
        ({CARD: "one"}, UsageError),
        ({CARD: -1}, UsageError),
        ({"main": {CARD: 1}, "other": 3}, UsageError),
        ("kind: Nonsense", InvalidManifest),
        (MANIFEST + "---" + MANIFEST, UsageError),
        (MANIFEST.replace("containers", "container"), InvalidManifest),
        ("absent/pod.yaml", PathUnusable),
        (Path("absent/pod.yaml"), PathUnusable),
        ("", InvalidManifest),
    ],
    ids=["text", "negative", "mixed", "not a pod", "two pods", "misspelt", "no file", "no path", "nothing"],
)
async def test_pod_that_cannot_be_is_refused_in_a_sentence(pod: object, error: type[Exception]) -> None:
    async with local_kubelet() as kubelet:
        with pytest.raises(error):
            await kubelet.admit(pod)  # type: ignore[arg-type]  # that is the point


async def test_pre_start_is_called_when_a_container_starts() -> None:
    class Preparing(Sick):
        def __init__(self) -> None:
            super().__init__()
            self.prepared: list[str] = []

        async def pre_start_container(self, devices: Sequence[Device]) -> None:
            self.prepared += [device.id for device in devices]

    async with local_kubelet() as kubelet:
        preparing = Preparing()
        await kubelet.plugin(preparing)
        pod = await kubelet.admit({CARD: 1})
        assert preparing.prepared == []
        assert await kubelet.start(pod) == pod.edits
        assert preparing.prepared == ["card0"]
        with pytest.raises(UsageError, match="has no container 'other'"):
            await kubelet.start(pod, "other")


async def test_end_of_a_pod_is_told_where_the_gate_is_on() -> None:
    class Cleaning(Sick):
        def __init__(self) -> None:
            super().__init__()
            self.released: list[tuple[str, ...]] = []

        async def release(self, assignment: Assignment) -> None:
            self.released.append(assignment.device_ids)

    async with local_kubelet(feature_gates={"DeviceManagerDeallocate": True}) as kubelet:
        cleaning = Cleaning()
        await kubelet.plugin(cleaning)
        await kubelet.end(await kubelet.admit({CARD: 1}))
        assert cleaning.released == [("card0",)]


@pytest.mark.parametrize("crash", [False, True], ids=["graceful", "crash"])
@pytest.mark.parametrize("keep_sockets", [False, True], ids=["sockets removed", "sockets kept"])
async def test_plugin_is_back_after_a_restart_and_pods_keep_their_devices(*, crash: bool, keep_sockets: bool) -> None:
    async with local_kubelet() as kubelet:
        await kubelet.plugin(cards)
        pod = await kubelet.admit({CARD: 1})
        await kubelet.restart(crash=crash, keep_sockets=keep_sockets)
        assert kubelet.allocatable == {CARD: 2}
        assert (await kubelet.admit({CARD: 1})).devices["app"][CARD] == ("card1",)
        [listed] = [each for each in kubelet.pod_resources if each.name == pod.name]
        assert listed.containers[0].devices[0].device_ids == ("card0",)
        assert len(kubelet.calls("Register")) == 2


@pytest.mark.parametrize("crash", [False, True], ids=["graceful", "crash"])
async def test_only_a_crash_leaves_the_registration_socket(*, crash: bool) -> None:
    async with local_kubelet() as kubelet:
        await kubelet.stop_kubelet(crash=crash)
        assert kubelet.paths.registration_socket.exists() is crash
        with pytest.raises(UsageError, match="is stopped"):
            await kubelet.admit({CARD: 1})


async def test_plugin_that_ignores_a_restart_is_named() -> None:
    async with local_kubelet(within_s=0.3) as kubelet:
        async with fake_plugin(CARD, kubelet.paths.device_plugins / "card.sock", [Device("card0")]) as deaf:
            await deaf.register(kubelet.paths.registration_socket)
            await kubelet.wait_for(allocatable={CARD: 1}, within_s=20)
            with pytest.raises(PluginNotReady, match=f"restarted, and {CARD} did not register again within 0.3 s"):
                await kubelet.restart()


async def test_wait_for_ends_as_soon_as_it_is_seen() -> None:
    sick = Sick()
    async with local_kubelet() as kubelet:
        await kubelet.plugin(sick)
        sick.devices = [Device("card0", health=unhealthy("Broken")), Device("card2")]
        sick.refresh()
        await kubelet.wait_for(
            devices={CARD: ["card2", "card0"]}, health={CARD: {"card0": "Unhealthy"}}, allocatable={CARD: 1}
        )
        await kubelet.wait_for(lambda: kubelet.capacity == {CARD: 2})


async def test_device_that_left_the_list_is_not_seen_although_a_pod_holds_it() -> None:
    sick = Sick()
    async with local_kubelet() as kubelet:
        await kubelet.plugin(sick)
        pod = await kubelet.admit({CARD: 1})
        sick.devices = [Device("card1")]
        sick.refresh()
        await kubelet.wait_for(devices={CARD: ["card1"]})
        assert pod.devices["app"][CARD] == ("card0",)


async def test_failed_wait_compares_what_was_expected_with_what_was_seen() -> None:
    async with local_kubelet(within_s=0.1) as kubelet:
        await kubelet.plugin(cards, within_s=READY_S)
        with pytest.raises(ExpectationFailed) as caught:
            await kubelet.wait_for(
                capacity={"example.com/other": None, CARD: 3},
                allocatable={"example.com/other": 1},
                devices={CARD: ["card0"]},
                health={CARD: {"card1": "Unhealthy"}},
            )
    assert str(caught.value).splitlines()[:9] == [
        "not seen within 0.1 s (- expected, + seen):",
        f"- capacity of {CARD}: 3",
        f"+ capacity of {CARD}: 2",
        "- allocatable of example.com/other: 1",
        "+ allocatable of example.com/other: (nothing)",
        f"- devices of {CARD}: ['card0']",
        f"+ devices of {CARD}: ['card0', 'card1']",
        f"- health of card1 of {CARD}: Unhealthy",
        f"+ health of card1 of {CARD}: Healthy",
    ]
    assert f"{CARD}: capacity 2, allocatable 2; its plugin is registered at" in str(caught.value)


async def test_plugin_without_a_list_is_not_ready() -> None:
    async with local_kubelet() as kubelet:
        hanging = kubelet.faults.hang(method="ListAndWatch")
        with pytest.raises(PluginNotReady, match=f"{CARD} was not ready within 0.2 s"):
            await kubelet.plugin(cards, within_s=0.2)
        hanging.off()
        await kubelet.plugin(cards)
        assert kubelet.allocatable == {CARD: 2}


async def test_refused_registration_is_told_and_tried_again() -> None:
    async with local_kubelet() as kubelet:
        refusal = kubelet.faults.refuse("no more plugins", times=1)
        await kubelet.plugin(cards)
        assert refusal.used == 1
        assert len(kubelet.calls("Register")) == 2


async def test_ended_plugin_leaves_no_allocatable_device() -> None:
    async with local_kubelet(grace_period_s=0.05) as kubelet:
        served = await kubelet.plugin(cards)
        await kubelet.end_plugin(served)
        await kubelet.wait_for(allocatable={CARD: 0})
        await kubelet.wait_for(capacity={CARD: 0})
        with pytest.raises(UsageError, match="is not a plugin of this kubelet"):
            await kubelet.end_plugin(served)


async def test_reloaded_plugin_registers_again() -> None:
    async with local_kubelet() as kubelet:
        kubelet.reload_plugin(await kubelet.plugin(cards))
        await kubelet.wait_for(lambda: len(kubelet.calls("Register")) == 2)


async def test_devices_are_aligned_on_the_simulated_machine() -> None:
    async with local_kubelet(numa_nodes=2, topology_policy="single-numa-node") as kubelet:
        await kubelet.plugin(cards)
        with pytest.raises(AdmissionError, match="Topology locality"):
            await kubelet.admit({CARD: 2})
        await kubelet.admit({"one": {CARD: 1}, "two": {CARD: 1}})


async def test_refusal_of_a_plugin_is_the_pods() -> None:
    async with local_kubelet() as kubelet:
        async with fake_plugin(CARD, kubelet.paths.device_plugins / "card.sock", [Device("card0")]) as card:
            card.allocate_answer = refusing(RpcCode.INTERNAL, "no power")
            await card.register(kubelet.paths.registration_socket)
            await kubelet.wait_for(allocatable={CARD: 1})
            with pytest.raises(AdmissionError, match="rpc error: code = Internal desc = no power"):
                await kubelet.admit({CARD: 1})


async def test_options_are_checked() -> None:
    with pytest.raises(UsageError, match="has no option 'numa_node'; its options are as_kubelet, node, api, numa"):
        async with local_kubelet(numa_node=2):  # type: ignore[call-arg]  # that is the point
            pass
    with pytest.raises(UsageError, match="unrecognized feature gate: Nonsense"):
        async with local_kubelet(feature_gates="Nonsense=true"):
            pass
    with pytest.raises(UnusableTopology, match="unknown policy"):
        async with local_kubelet(topology_policy="nonsense"):
            pass
    async with local_kubelet() as kubelet:
        with pytest.raises(UsageError, match="'card' is not a plugin; give a function with @plugin"):
            await kubelet.plugin("card")


async def test_machine_without_a_numa_node_is_refused() -> None:
    with pytest.raises(UsageError, match="numa_nodes is the number of NUMA nodes, at least 1, and not -1"):
        async with local_kubelet(numa_nodes=-1):
            pass


async def test_fault_that_could_never_act_and_a_method_that_is_not_there_are_refused() -> None:
    async with local_kubelet() as kubelet:
        with pytest.raises(UsageError, match='there is no method "Alocate"; choose from Register, '):
            kubelet.faults.hang(method="Alocate")
        with pytest.raises(UsageError, match='there is no method "Alocate"; choose from Register, '):
            kubelet.calls("Alocate")
        with pytest.raises(UsageError, match="lasts 0 s or more, and acts 0 times or more"):
            kubelet.faults.delay(-1)
        assert kubelet.calls("register") == []


async def test_nothing_is_left_even_by_a_test_that_fails_or_is_cancelled() -> None:
    roots: list[Path] = []

    async def interrupted() -> None:
        async with local_kubelet() as kubelet:
            roots.append(kubelet.paths.root)
            await kubelet.plugin(cards)
            raise KeyError("the test's")

    async def for_ever() -> None:
        async with local_kubelet() as kubelet:
            roots.append(kubelet.paths.root)
            await asyncio.Event().wait()

    before = asyncio.all_tasks()
    with pytest.raises(KeyError, match="the test's"):  # itself, and not in a group
        await interrupted()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(for_ever(), 0.2)
    assert [root for root in roots if root.exists()] == []
    assert asyncio.all_tasks() == before


async def test_paths_are_short_enough_for_sockets() -> None:
    async with local_kubelet() as kubelet:
        assert isinstance(kubelet.paths, KubeletPaths)
        assert len(str(kubelet.paths.root)) < 24
        assert ContainerEdits() == (await kubelet.admit({"app": {}}))["app"]
