"""A plugin with a CDI kind, as kubelets and engines see it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from plugbay import CdiAnswer, ContainerEdits, Device, Mount, NetworkInterface, Replicas
from plugbay.cdi.host import host_node
from plugbay.cdi.inject import inject
from plugbay.cdi.names import parse_qualified_name
from plugbay.cdi.spec import Edits
from plugbay.cdi.spec import SpecDeviceNode as Node
from plugbay.errors import InvalidCdiName, RpcFailed
from plugbay.sdk.process.runner import serving
from tests.contract.rigs.sdk_cdi import KIND, RESOURCE, Gophers, Machine, allocate, gopher, machine

__all__ = ["machine"]


def injected_env(machine: Machine, answer: ContainerEdits) -> list[str]:
    """The variables that a container has in the end: those of the answer, then what an engine injects."""
    plain = [f"{name}={value}" for name, value in answer.env.items()]
    edits = machine.scan().edits([parse_qualified_name(each) for each in answer.cdi_devices])
    oci = inject(edits, {"process": {"env": plain}}, partial(host_node, root=Path("/")))
    env: list[str] = oci["process"]["env"]
    return env


async def test_spec_is_there_before_the_device_is_offered(machine: Machine) -> None:
    async with machine.kubelet_with(Gophers(gopher("g1"), gopher("g2"))) as kubelet:
        plugin = await kubelet.next_registration()
        assert machine.file.exists()
        assert await plugin.next_list() == ("g1", "g2")
        registry = machine.scan()
        assert registry.problems == {}
        [g1] = [each.device for name, each in registry.devices.items() if name.name == "g1"]
        null = Path("/dev/null").stat()
        assert g1.edits == Edits(
            env=("GOPHERS=g1",),
            device_nodes=(
                Node(
                    "/dev/g1",
                    "/dev/null",
                    file_mode=null.st_mode & 0o7777,
                    permissions="rw",
                    uid=null.st_uid,
                    gid=null.st_gid,
                ),
            ),
            mounts=registry.devices[parse_qualified_name(f"{KIND}=g1")].device.edits.mounts,
        )
        assert registry.devices[parse_qualified_name(f"{KIND}=g1")].file.spec.version == "0.5.0"
        assert machine.file.stat().st_mode & 0o777 == 0o644
    assert not machine.file.exists()


async def test_one_device_is_given_by_its_name(machine: Machine) -> None:
    async with machine.served(Gophers(gopher("g1"), gopher("g2"))) as plugin:
        answer = await allocate(plugin, "g1")
        assert answer == ContainerEdits(cdi_devices=(f"{KIND}=g1",))
        assert injected_env(machine, answer) == ["GOPHERS=g1"]


async def test_a_network_interface_is_given_by_its_name_and_in_no_other_way(machine: Machine) -> None:
    nic = Device("nic0", interfaces=[NetworkInterface("enp1s0f0v3", "fast0")])
    gophers = Gophers(nic)
    async with machine.served(gophers) as plugin:
        answer = await allocate(plugin, "nic0")
        assert answer == ContainerEdits(cdi_devices=(f"{KIND}=nic0",))
        edits = machine.scan().edits([parse_qualified_name(each) for each in answer.cdi_devices])
        oci = inject(edits, {}, partial(host_node, root=Path("/")))
        assert oci["linux"]["netDevices"] == {"enp1s0f0v3": {"name": "fast0"}}
    gophers.cdi_answer = CdiAnswer.EDITS
    async with machine.served(gophers) as plugin:
        with pytest.raises(RpcFailed, match="enp1s0f0v3 cannot move into the pod: an answer has no place for"):
            await allocate(plugin, "nic0")


async def test_variables_of_several_devices_are_joined(machine: Machine) -> None:
    """In CDI the last one's value would win."""
    async with machine.served(Gophers(gopher("g1"), gopher("g2"), Device("e", env={"GOPHERS": "e"}))) as plugin:
        answer = await allocate(plugin, "g1", "g2", "e")
        assert answer.env == {"GOPHERS": "e,g1,g2"}
        assert injected_env(machine, answer) == ["GOPHERS=e,g1,g2"]
        edits = machine.scan().edits([parse_qualified_name(each) for each in answer.cdi_devices])
        assert [node.path for node in edits.device_nodes] == ["/dev/g1", "/dev/g2"]


async def test_names_and_edits_at_once(machine: Machine) -> None:
    devices = gopher("g1"), gopher("g2")
    async with machine.served(Gophers(*devices, answer=CdiAnswer.NAMES | CdiAnswer.EDITS)) as plugin:
        answer = await allocate(plugin, "g1", "g2")
        assert answer.env == {"GOPHERS": "g1,g2"}
        assert answer.mounts == devices[0].edits.mounts
        assert answer.device_nodes == (*devices[0].edits.device_nodes, *devices[1].edits.device_nodes)
        assert len(answer.cdi_devices) == 2
        assert injected_env(machine, answer) == ["GOPHERS=g1,g2"]


async def test_annotations_for_old_kubelets_are_asked_for(machine: Machine) -> None:
    async with machine.served(Gophers(gopher("g1"), answer=CdiAnswer.ANNOTATIONS)) as plugin:
        answer = await allocate(plugin, "g1")
        assert not answer.cdi_devices
        [(key, value)] = answer.annotations.items()
        assert key.startswith("cdi.k8s.io/gopher_")
        assert value == f"{KIND}=g1"


async def test_what_allocate_says_goes_along(machine: Machine) -> None:
    class Tuned(Gophers):
        def allocate(self, devices: Sequence[Device]) -> ContainerEdits:
            return ContainerEdits(env={"SPEED": "fast", **({"GOPHERS": "best"} if len(devices) > 1 else {})})

    async with machine.served(Tuned(gopher("g1"), gopher("g2"))) as plugin:
        assert await allocate(plugin, "g1") == ContainerEdits(env={"SPEED": "fast"}, cdi_devices=(f"{KIND}=g1",))
        both = await allocate(plugin, "g1", "g2")
        assert sorted(injected_env(machine, both)) == ["GOPHERS=best", "SPEED=fast"]


async def test_replicas_share_an_entry(machine: Machine) -> None:
    async with machine.served(Gophers(gopher("g1", sharing=Replicas(2)))) as plugin:
        assert (await allocate(plugin, "g1::1")).cdi_devices == (f"{KIND}=g1",)
        assert machine.names() == ["g1", "g1:without-env"]


async def test_device_that_cdi_cannot_express_is_not_offered(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    odd = gopher("odd", annotations={"example.com/tune": "1"})
    plugin = Gophers(gopher("g1"), odd, Device("bare"))
    async with machine.kubelet_with(plugin) as kubelet:
        registered = await kubelet.next_registration()
        assert await registered.next_list() == ("g1",)
        plugin.devices = [gopher("g1"), gopher("g2"), odd]
        plugin.refresh()
        await registered.until_devices("g1", "g2")
    told = [each.message for each in caplog.records if each.levelno == logging.ERROR]
    assert told == [
        f"{RESOURCE}: not offered: device odd: a CDI spec cannot hold the annotation example.com/tune",
        f"{RESOURCE}: not offered: device bare: a CDI device needs variables, mounts or device nodes, and it has none",
    ]


async def test_devices_that_do_not_go_together_are_refused(machine: Machine) -> None:
    devices = [Device(name, mounts=[Mount(f"/{name}", container_path="/opt/gopher")]) for name in ("a", "b")]
    async with machine.served(Gophers(*devices)) as plugin:
        with pytest.raises(RpcFailed, match="/opt/gopher"):
            await allocate(plugin, "a", "b")


async def test_bad_kind_is_refused_at_once(machine: Machine) -> None:
    plugin = Gophers()
    plugin.cdi_kind = "gopher"
    with pytest.raises(InvalidCdiName, match='invalid CDI kind "gopher": it has to be vendor/class'):
        async with serving([plugin], paths=machine.paths, cdi_directory=machine.specs):
            pass
