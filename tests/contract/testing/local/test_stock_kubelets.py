"""A test's kubelet as those of Kubernetes 1.20 to 1.37 were, each difference in the versions around its end."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Final

import pytest

from plugbay import ContainerEdits, Device, plugin
from plugbay.errors import RpcFailed, UsageError
from plugbay.kubelet.podresources import PodResourcesClient
from plugbay.model.devices import PluginOptions
from plugbay.testing import AdmissionError, FakePlugin, Kubelet, LocalKubelet, RpcCode, fake_plugin, local_kubelet
from plugbay.testing.local.settings import settings_of
from plugbay.testing.local.stock.versions import KILLS_RUNNING_PODS, QUIRKS, Quirk, QuirkSpec, release_of
from plugbay.wire.registration import Registration, register
from tests.contract.rigs.manager import never
from tests.contract.wire.test_authority import until_told

CARD: Final = "example.com/card"
DEADLINE_S: Final = 20
VERSIONS: Final = [f"1.{minor}" for minor in range(20, 38)]


@plugin(CARD)
def cards() -> list[Device]:
    return [Device("card0", env={"CARD": "0"}), Device("card1", env={"CARD": "1"})]


@asynccontextmanager
async def card(kubelet: LocalKubelet, name: str = "card.sock", devices: int = 1) -> AsyncIterator[FakePlugin]:
    """A plugin that is not registered yet."""
    listed = [Device(f"card{number}") for number in range(devices)]
    async with fake_plugin(CARD, kubelet.paths.device_plugins / name, listed) as served:
        yield served


@pytest.mark.parametrize("version", VERSIONS)
async def test_plugbays_own_plugin_works_with_every_version(version: str) -> None:
    async with local_kubelet(as_kubelet=version) as kubelet:
        await kubelet.plugin(cards)
        pod = await kubelet.admit({CARD: 1})
        assert pod["app"].env == {"CARD": "0"}
        assert await kubelet.restart() == {}
        assert kubelet.allocatable == {CARD: 2}
        await kubelet.end(pod)
        await kubelet.admit({CARD: 2})


@pytest.mark.parametrize(("version", "answers_first"), [("1.24", True), ("1.25", False)])
async def test_register_was_answered_before_the_plugin_was_dialled(version: str, *, answers_first: bool) -> None:
    async with local_kubelet(as_kubelet=version) as kubelet:
        hanging = kubelet.faults.hang(method="GetDevicePluginOptions")
        missing = Registration("v1beta1", "nothing.sock", CARD)

        async def ask() -> None:
            seconds = DEADLINE_S if answers_first else 0.3
            await register(kubelet.paths.registration_socket, missing, options=PluginOptions(), timeout_s=seconds)

        if answers_first:
            await ask()
        else:
            with pytest.raises(RpcFailed):
                await ask()
        hanging.off()


@pytest.mark.parametrize(("version", "of_register"), [("1.24", True), ("1.25", False)])
async def test_options_were_those_of_the_register_request(version: str, *, of_register: bool) -> None:
    async with local_kubelet(as_kubelet=version) as kubelet, card(kubelet) as served:
        request = Registration("v1beta1", "card.sock", CARD)
        wanted = PluginOptions(pre_start_required=True)
        await register(kubelet.paths.registration_socket, request, options=wanted, timeout_s=DEADLINE_S)
        await kubelet.wait_for(allocatable={CARD: 1})
        await kubelet.start(await kubelet.admit({CARD: 1}))
        assert bool(served.pre_started) is of_register
        assert ("GetDevicePluginOptions" in served.calls) is not of_register


@pytest.mark.parametrize(("version", "is_made"), [("1.24", True), ("1.25", False)])
async def test_a_deprecation_file_was_made(version: str, *, is_made: bool) -> None:
    async with local_kubelet(as_kubelet=version) as kubelet:
        assert (kubelet.paths.device_plugins / "DEPRECATION").exists() is is_made


@pytest.mark.parametrize(("version", "names_path"), [("1.25", True), ("1.26", False)])
async def test_calls_named_the_sockets_path_as_authority(version: str, *, names_path: bool) -> None:
    async with local_kubelet(as_kubelet=version) as kubelet:
        path = kubelet.paths.device_plugins / "card.sock"
        asking = register(
            kubelet.paths.registration_socket,
            Registration("v1beta1", path.name, CARD),
            options=PluginOptions(),
            timeout_s=DEADLINE_S,
        )
        await until_told(path, str(path) if names_path else "localhost", asking)


@pytest.mark.parametrize(("version", "named"), [("1.28", ()), ("1.29", ("example.com/card=0",))])
async def test_cdi_names_were_ignored(version: str, named: tuple[str, ...]) -> None:
    async def by_name(*_: object) -> ContainerEdits:
        return ContainerEdits(env={"CARD": "0"}, cdi_devices=["example.com/card=0"])

    async with local_kubelet(as_kubelet=version) as kubelet, card(kubelet) as served:
        served.allocate_answer = by_name
        await served.register(kubelet.paths.registration_socket)
        await kubelet.wait_for(allocatable={CARD: 1})
        edits = (await kubelet.admit({CARD: 1}))["app"]
        assert edits.env == {"CARD": "0"}
        assert edits.cdi_devices == named


@pytest.mark.parametrize(("version", "is_reused"), [("1.28", True), ("1.29", False)])
async def test_sidecars_were_init_containers(version: str, *, is_reused: bool) -> None:
    async with local_kubelet(as_kubelet=version) as kubelet:
        await kubelet.plugin(cards)
        pod = await kubelet.admit({"app": {CARD: 1}}, sidecars={"watch": {CARD: 1}})
        assert (pod.devices["app"][CARD] == pod.devices["watch"][CARD]) is is_reused


@pytest.mark.parametrize(("version", "left"), [("1.24", 2), ("1.25", 0), ("1.36", 0), ("1.37", 2), (None, 2)], ids=str)
async def test_end_of_an_old_stream_took_the_new_plugin_down(version: str | None, left: int) -> None:
    async with local_kubelet(as_kubelet=version) as kubelet, card(kubelet, "new.sock", 2) as new:
        async with card(kubelet, "old.sock") as old:
            await old.register(kubelet.paths.registration_socket)
            await kubelet.wait_for(allocatable={CARD: 1})
            await new.register(kubelet.paths.registration_socket)
            await kubelet.wait_for(allocatable={CARD: 2})
        await kubelet.wait_for(lambda: len(kubelet.traffic.of("ListAndWatch")) == 2)
        if left:
            await kubelet.admit({CARD: 2})
        await kubelet.wait_for(allocatable={CARD: left}, capacity={CARD: 2})


@pytest.mark.parametrize(("version", "left"), [("1.24", 0), ("1.36", 0), ("1.37", 1)])
async def test_an_older_plugin_did_not_take_over(version: str, left: int) -> None:
    async with local_kubelet(as_kubelet=version) as kubelet, card(kubelet, "old.sock") as old:
        await old.register(kubelet.paths.registration_socket)
        await kubelet.wait_for(allocatable={CARD: 1})
        async with card(kubelet, "new.sock", 2) as new:
            await new.register(kubelet.paths.registration_socket)
            await kubelet.wait_for(allocatable={CARD: 2})
        await kubelet.wait_for(allocatable={CARD: left})


@pytest.mark.parametrize(("version", "left"), [("1.24", 0), ("1.25", 1), ("1.36", 1), ("1.37", 0)])
async def test_a_failed_registration_made_the_kubelet_forget_the_former_plugin(version: str, left: int) -> None:
    async with local_kubelet(as_kubelet=version) as kubelet:
        async with card(kubelet) as former:
            await former.register(kubelet.paths.registration_socket)
            await kubelet.wait_for(allocatable={CARD: 1})
            async with card(kubelet, "bad.sock") as bad:
                bad.options_answer = RpcFailed(RpcCode.INTERNAL, "no options")
                with (
                    nullcontext()
                    if version == "1.24"
                    else pytest.raises(RpcFailed, match="failed to get device plugin")
                ):
                    await bad.register(kubelet.paths.registration_socket)
        await kubelet.wait_for(allocatable={CARD: left})


@pytest.mark.parametrize(("version", "left"), [("1.25", 0), ("1.36", 0), ("1.37", 2)])
async def test_end_of_a_forgotten_plugin_takes_down_the_one_that_registered_since(version: str, left: int) -> None:
    """Spec 2.4, 2.5: its loop looks up the client of the resource, which there is again."""
    async with local_kubelet(as_kubelet=version) as kubelet, card(kubelet, "new.sock", 2) as new:
        async with card(kubelet, "former.sock") as former:
            await former.register(kubelet.paths.registration_socket)
            await kubelet.wait_for(allocatable={CARD: 1})
            async with card(kubelet, "bad.sock") as bad:
                bad.options_answer = RpcFailed(RpcCode.INTERNAL, "no options")
                with pytest.raises(RpcFailed, match="failed to get device plugin"):
                    await bad.register(kubelet.paths.registration_socket)
            await new.register(kubelet.paths.registration_socket)
            await kubelet.wait_for(allocatable={CARD: 2})
        if left:
            await kubelet.admit({CARD: 2})
        await kubelet.wait_for(allocatable={CARD: left}, capacity={CARD: 2})


@pytest.mark.parametrize(("version", "is_refused"), [("1.36", False), ("1.37", True)])
async def test_a_connected_socket_is_refused(version: str, *, is_refused: bool) -> None:
    async with local_kubelet(as_kubelet=version) as kubelet, card(kubelet) as served:
        await served.register(kubelet.paths.registration_socket)
        await kubelet.wait_for(allocatable={CARD: 1})
        if is_refused:
            with pytest.raises(RpcFailed, match=f"device plugin already connected: {served.socket}"):
                await served.register(kubelet.paths.registration_socket)
        else:
            await served.register(kubelet.paths.registration_socket)


@pytest.mark.parametrize(
    ("version", "rejected"), [("1.24", []), ("1.25", ["with-init"]), ("1.27.2", ["plain", "with-init"]), (None, [])]
)
async def test_pods_were_rejected_after_a_restart(version: str | None, rejected: list[str]) -> None:
    async with local_kubelet(as_kubelet=version) as kubelet, card(kubelet, devices=2) as served:
        await served.register(kubelet.paths.registration_socket)
        await kubelet.wait_for(allocatable={CARD: 2})
        await kubelet.admit({CARD: 1}, name="plain")
        await kubelet.admit({"app": {CARD: 1}}, init={"prepare": {CARD: 1}}, name="with-init")
        refusals = await kubelet.restart(wait=False, keep_sockets=True)
        assert sorted(refusals) == rejected
        assert {str(error) for error in refusals.values()} <= {
            f"no healthy devices present; cannot allocate unhealthy devices {CARD}"
        }
        await served.register(kubelet.paths.registration_socket)
        await kubelet.wait_for(allocatable={CARD: 2})
        if rejected:
            await kubelet.admit({CARD: len(rejected)})


async def test_lists_of_a_replaced_plugin_count_as_long_as_it_streams() -> None:
    async with (
        local_kubelet(as_kubelet="1.36") as kubelet,
        card(kubelet, "old.sock") as old,
        card(kubelet, "new.sock", 2) as new,
    ):
        for each, count in ((old, 1), (new, 2)):
            await each.register(kubelet.paths.registration_socket)
            await kubelet.wait_for(allocatable={CARD: count})
        old.send([Device(f"card{number}") for number in range(5)])
        await kubelet.wait_for(allocatable={CARD: 5})


async def test_endpoint_may_lead_out_of_the_directory() -> None:
    async with local_kubelet(as_kubelet="1.36") as kubelet:
        async with fake_plugin(CARD, kubelet.paths.root / "x.sock", [Device("card0")]) as served:
            await served.register(kubelet.paths.registration_socket, endpoint="../x.sock")
            await kubelet.wait_for(allocatable={CARD: 1})


@pytest.mark.parametrize(("version", "holds_up"), [("1.36", True), (None, False)])
async def test_a_plugin_that_hangs_held_up_every_pod(version: str | None, *, holds_up: bool) -> None:
    other = "example.com/other"
    async with local_kubelet(as_kubelet=version) as kubelet, card(kubelet) as hanging:
        await hanging.register(kubelet.paths.registration_socket)
        async with fake_plugin(other, kubelet.paths.device_plugins / "other.sock", [Device("o1")]) as prompt:
            await prompt.register(kubelet.paths.registration_socket)
            await kubelet.wait_for(allocatable={CARD: 1, other: 1})
            hang = kubelet.faults.hang(method="Allocate", resource=CARD)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(kubelet.admit({CARD: 1}))
                await hang.until_used(timeout_s=DEADLINE_S)
                second = tasks.create_task(kubelet.admit({other: 1}))
                await asyncio.wait([second], timeout=0.2 if holds_up else DEADLINE_S)
                assert second.done() is not holds_up
                hang.off()


@pytest.mark.parametrize(("version", "is_skipped"), [("1.36", True), (None, False)])
async def test_pre_start_was_skipped_until_the_plugin_is_back(version: str | None, *, is_skipped: bool) -> None:
    async with local_kubelet(as_kubelet=version) as kubelet:
        path = kubelet.paths.device_plugins / "card.sock"
        wanting = PluginOptions(pre_start_required=True)
        async with fake_plugin(CARD, path, [Device("card0")], options=wanting) as served:
            await served.register(kubelet.paths.registration_socket)
            await kubelet.wait_for(allocatable={CARD: 1})
            pod = await kubelet.admit({CARD: 1})
            await kubelet.restart(wait=False)
            with nullcontext() if is_skipped else pytest.raises(AdmissionError, match="has not registered since"):
                await kubelet.start(pod)
            assert served.pre_started == []


def test_deadline_of_calls_is_a_day_unless_it_is_said() -> None:
    assert [settings_of({"as_kubelet": each}).call_deadline_s for each in (None, "1.30")] == [60, 86_400]
    assert settings_of({"as_kubelet": "1.30", "call_timeout_s": 5.0}).call_deadline_s == 5


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (
            "1.20",
            "code = Unimplemented desc = unknown method GetAllocatableResources for service v1.PodResourcesLister",
        ),
        ("1.21", "code = Unknown desc = Pod Resources API GetAllocatableResources disabled"),
        ("1.22", "code = Unknown desc = Pod Resources API GetAllocatableResources disabled"),
        ("1.23", ""),
        (None, ""),
    ],
    ids=str,
)
async def test_allocatable_resources_came_with_1_23(version: str | None, error: str) -> None:
    async with local_kubelet(as_kubelet=version) as kubelet, PodResourcesClient(pod_resources_of(kubelet)) as client:
        await kubelet.plugin(cards)
        with pytest.raises(RpcFailed, match=error) if error else nullcontext():
            assert len((await client.allocatable()).devices) == 2


@pytest.mark.parametrize(
    ("version", "error"),
    [
        ("1.26", "code = Unimplemented desc = unknown method Get for service v1.PodResourcesLister"),
        ("1.27", "code = Unknown desc = PodResources API Get method disabled"),
        ("1.33", "code = Unknown desc = PodResources API Get method disabled"),
        ("1.34", ""),
        (None, ""),
    ],
    ids=str,
)
async def test_get_of_pod_resources_came_with_1_34(version: str | None, error: str) -> None:
    async with local_kubelet(as_kubelet=version) as kubelet, PodResourcesClient(pod_resources_of(kubelet)) as client:
        await kubelet.plugin(cards)
        pod = await kubelet.admit({CARD: 1})
        assert [each.name for each in await client.list()] == [pod.name]
        with pytest.raises(RpcFailed, match=error) if error else nullcontext():
            assert await client.get(pod.namespace, pod.name) is not None


def pod_resources_of(kubelet: LocalKubelet) -> Path:
    return kubelet.paths.pod_resources_socket


async def test_no_kubelet_tells_of_ends() -> None:
    with pytest.raises(UsageError, match="no kubelet has the gate DeviceManagerDeallocate; leave as_kubelet out"):
        async with local_kubelet(as_kubelet="1.36", feature_gates="DeviceManagerDeallocate=true"):
            await never()


@pytest.mark.parametrize("version", ["1.19", "1.38", "2.20", "1.x", "", "v1.26", "1.26 "])
def test_other_versions_are_refused_in_a_sentence(version: str) -> None:
    with pytest.raises(UsageError, match=r"as_kubelet is a version from 1\.20 to 1\.37, such as '1\.26', and not '"):
        Kubelet(as_kubelet=version)


def test_a_version_that_is_a_number_is_refused_in_a_sentence() -> None:
    with pytest.raises(UsageError, match=r"such as '1\.26', and not 1\.26$"):
        Kubelet(as_kubelet=1.26)  # type: ignore[arg-type]  # that is the point


def test_other_patch_releases_are_refused_in_a_sentence() -> None:
    with pytest.raises(UsageError, match=r"only 1\.25\.10, 1\.26\.5, 1\.27\.2 are known; write '1\.26' for the last"):
        release_of("1.26.6")


def test_every_difference_has_a_line_in_the_page() -> None:
    page = (Path(__file__).parents[4] / "docs/tester.md").read_text(encoding="utf-8")
    rows = {tuple(cell.strip() for cell in row.split("|")[1:4]) for row in re.findall(r"^\|.*\|$", page, re.MULTILINE)}
    specs = [*QUIRKS.values(), KILLS_RUNNING_PODS]
    assert {(_versions(each), each.sentence, each.source) for each in specs} <= rows
    assert QUIRKS.keys() == set(Quirk) - {Quirk.CHECKS_RUNNING}


def _versions(spec: QuirkSpec) -> str:
    return f"1.{spec.first}" if spec.first == spec.last else f"1.{spec.first} to 1.{spec.last}"
