"""NVIDIA GPUs served over real sockets: resources, answers, preferences, configuration that changes."""

from __future__ import annotations

import logging
import os
import signal
import stat
from pathlib import Path

import pytest

from plugbay.errors import RpcFailed
from plugbay.kubelet.paths import KubeletPaths
from plugbay.model.ids import DeviceId
from plugbay.plugins.nvidia.config.arguments import parse_flags
from plugbay.plugins.nvidia.serving.settings import NodeSettings
from plugbay.plugins.nvidia.serving.source import NvidiaSource
from plugbay.sdk.process.runner import serving
from plugbay.testing.fakenvml import (
    a100_nvswitch,
    fake_driver,
    h100_mig,
    in_mig_mode,
    lay_out_tegra,
    lay_out_wsl,
    t4,
)
from plugbay.testing.fakes.kubelet import RegisteredPlugin, fake_kubelet
from tests.contract.conftest import Plugbay
from tests.contract.rigs.gpu_node import OFTEN, gpu_node, unhealthy, until
from tests.contract.rigs.nodes_api import nodes_api
from tests.contract.rigs.nvidia import environ_of


def ids(*names: str) -> list[DeviceId]:
    return [DeviceId(name) for name in names]


async def env(plugin: RegisteredPlugin, *names: str) -> dict[str, str]:
    """The variables that a container gets with devices."""
    answer = await plugin.client.allocate(ids(*names))
    assert answer is not None
    return dict(answer.edits.env)


async def test_whole_gpus_are_one_resource(sockets: Path, nvml_library: Path) -> None:
    """Scenarios 1, 35, 74, 76 and 78."""
    machine = a100_nvswitch()
    async with gpu_node(machine, sockets, nvml_library) as node:
        plugin = await node.resource()
        uuids = [gpu.uuid for gpu in machine.gpus]
        await until(lambda: plugin.devices)
        assert {each.id: each.numa_nodes for each in plugin.devices.values()} == {
            gpu.uuid: (gpu.numa_node,) for gpu in machine.gpus
        }
        assert plugin.options.get_preferred_allocation_available
        assert await env(plugin, uuids[3], uuids[1], uuids[3]) == {"NVIDIA_VISIBLE_DEVICES": f"{uuids[3]},{uuids[1]}"}
        assert await env(plugin) == {"NVIDIA_VISIBLE_DEVICES": ""}
        with pytest.raises(
            RpcFailed, match=r'invalid allocation request for "nvidia.com/gpu": .* unknown device: GPU-x'
        ):
            await plugin.client.allocate(ids("GPU-x"))


@pytest.mark.usefixtures("may_make_nodes")
async def test_control_nodes_that_come_later_are_in_the_next_answer(sockets: Path, nvml_library: Path) -> None:
    """As `/dev/nvidia-uvm`, which the first program that computes may make."""
    machine = t4()
    flags = ("--pass-device-specs", "--rescan-interval=1h")
    async with gpu_node(machine, sockets, nvml_library, *flags, has_nodes=True) as node:
        uvm = node.root / "dev/nvidia-uvm"
        number = uvm.stat().st_rdev
        uvm.unlink()
        plugin = await node.resource()
        await until(lambda: plugin.devices)

        async def named() -> set[str]:
            answer = await plugin.client.allocate(ids(machine.gpus[0].uuid))
            assert answer is not None
            return {each.container_path for each in answer.edits.device_nodes}

        before = await named()
        assert {"/dev/nvidiactl", "/dev/nvidia0"} <= before
        os.mknod(uvm, stat.S_IFCHR | 0o666, number)
        assert await named() == before | {"/dev/nvidia-uvm"}


@pytest.mark.usefixtures("may_make_nodes")
async def test_an_imex_channel_that_comes_later_is_in_the_next_answers(
    sockets: Path, nvml_library: Path, caplog: pytest.LogCaptureFixture
) -> None:
    machine = t4()
    async with gpu_node(machine, sockets, nvml_library, "--imex-channel-ids=0") as node:
        plugin = await node.resource()
        await until(lambda: plugin.devices)
        assert "NVIDIA_IMEX_CHANNELS" not in await env(plugin, machine.gpus[0].uuid)
        assert "containers get it from the next look at the machine on" in caplog.text
        channel = node.root / "dev/nvidia-caps-imex-channels/channel0"
        channel.parent.mkdir()
        os.mknod(channel, stat.S_IFCHR | 0o666, os.makedev(240, 0))
        view = node.source.view
        assert view is not None
        await until(lambda: view.features.imex_channels)
        looks = view.looks
        await until(lambda: view.looks > looks)
        assert (await env(plugin, machine.gpus[0].uuid))["NVIDIA_IMEX_CHANNELS"] == "0"


async def test_a_preference_that_cannot_be_met_is_empty_and_told(
    sockets: Path, nvml_library: Path, caplog: pytest.LogCaptureFixture
) -> None:
    uuids = [gpu.uuid for gpu in a100_nvswitch().gpus]
    async with gpu_node(a100_nvswitch(), sockets, nvml_library) as node:
        plugin = await node.resource()
        await until(lambda: plugin.devices)
        assert await plugin.client.preferred_allocation(ids(uuids[0]), [], 2) == ()
    assert "nvidia.com/gpu: no devices are preferred, as the request cannot be met: it wants 2 of the 1" in caplog.text


async def test_linked_gpus_are_preferred(sockets: Path, nvml_library: Path) -> None:
    machine = a100_nvswitch()
    uuids = [gpu.uuid for gpu in machine.gpus]
    async with gpu_node(machine, sockets, nvml_library) as node:
        plugin = await node.resource()
        chosen = await plugin.client.preferred_allocation(ids(*uuids), ids(uuids[5]), 2)
        assert set(chosen) == {uuids[4], uuids[5]}
        assert await plugin.client.preferred_allocation(ids(*uuids[::-1]), [], 1) == (uuids[7],)


async def test_mig_devices_are_resources_of_their_profiles(sockets: Path, nvml_library: Path) -> None:
    """Scenario 44, and 45 for the GPU without MIG devices."""
    async with gpu_node(h100_mig(), sockets, nvml_library, "--mig-strategy=mixed") as node:
        found = {(await node.kubelet.next_registration()).registration.resource_name for _ in range(7)}
    assert found == {
        "nvidia.com/gpu",
        "nvidia.com/mig-1g.10gb",
        "nvidia.com/mig-3g.40gb",
        "nvidia.com/mig-2g.20gb",
        "nvidia.com/mig-7g.80gb",
        "nvidia.com/mig-1g.20gb",
        "nvidia.com/mig-1g.10gb.me",
    }


async def test_replicas_are_shared_and_refused_together(sockets: Path, nvml_library: Path) -> None:
    """Scenarios 23, 75 and 77."""
    config = sockets / "config.yaml"
    config.write_text(
        "sharing:\n  timeSlicing:\n    renameByDefault: true\n    failRequestsGreaterThanOne: true\n"
        "    resources: [{name: gpu, replicas: 2}]\n"
    )
    machine = t4()
    uuid = machine.gpus[0].uuid
    async with gpu_node(machine, sockets, nvml_library, f"--config-file={config}") as node:
        plugin = await node.resource("nvidia.com/gpu.shared")
        await until(lambda: plugin.devices)
        assert set(plugin.devices) == {f"{uuid}::0", f"{uuid}::1"}
        assert await env(plugin, f"{uuid}::1") == {"NVIDIA_VISIBLE_DEVICES": uuid}
        with pytest.raises(RpcFailed, match="maximum request size for shared resources is 1; found 2"):
            await plugin.client.allocate(ids(f"{uuid}::0", f"{uuid}::1"))


async def test_a_changed_configuration_is_taken_over_and_a_broken_one_is_not(
    sockets: Path, nvml_library: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = sockets / "config.yaml"
    config.write_text("version: v1\n")
    async with gpu_node(t4(), sockets, nvml_library, f"--config-file={config}") as node:
        plugin = await node.resource()
        config.write_text("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 1}]}}\n")
        with caplog.at_level(logging.ERROR):
            await until(lambda: "number of replicas must be >= 2" in caplog.text)
        assert "stays in use" in caplog.text
        assert node.source.active is not None
        assert node.source.active.refusal is not None
        assert len(plugin.devices) == 1
        config.write_text("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 3}]}}\n")
        await until(lambda: len(plugin.devices) == 3)
        assert not plugin.ended.is_set(), "the stream to the kubelet went on"


async def test_log_says_what_a_configuration_file_asks_for_in_vain(
    sockets: Path, nvml_library: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = sockets / "config.yaml"
    config.write_text("flags:\n  migStrateg: single\n")
    with caplog.at_level(logging.WARNING):
        async with gpu_node(
            t4(), sockets, nvml_library, f"--config-file={config}", "--config-dialect=reference"
        ) as node:
            await node.resource()
    assert "config.yaml:2: flags.migStrateg: there is no such field; it is ignored" in caplog.text


async def test_resources_come_and_go_with_mig_partitions(sockets: Path, nvml_library: Path) -> None:
    machine = h100_mig()
    gpu = machine.gpus[3]
    async with gpu_node(machine, sockets, nvml_library, "--mig-strategy=mixed") as node:
        whole = await node.resource("nvidia.com/gpu")
        fresh = in_mig_mode(gpu, "4g.40gb")
        await node.driver.set_mig(gpu.uuid, fresh.mig)
        node.lay_out()
        added = await node.resource("nvidia.com/mig-4g.40gb")
        await until(lambda: added.devices)
        assert fresh.mig is not None
        assert set(added.devices) == {fresh.mig.devices[0].uuid}
        assert not whole.ended.is_set(), "resources that did not change are not disturbed"
        await node.driver.set_mig(gpu.uuid, gpu.mig)
        await added.until_ended()


async def test_gpus_are_hot_plugged(sockets: Path, nvml_library: Path) -> None:
    whole = a100_nvswitch()
    fewer = type(whole)(whole.gpus[:2], whole.driver_version)
    async with gpu_node(fewer, sockets, nvml_library) as node:
        plugin = await node.resource()
        await until(lambda: len(plugin.devices) == 2)
        await node.driver.replace(type(whole)(whole.gpus[:3], whole.driver_version))
        await until(lambda: len(plugin.devices) == 3)
        await node.driver.replace(fewer)
        await until(lambda: len(plugin.devices) == 2)


async def test_a_driver_that_comes_later_is_found(sockets: Path, nvml_library: Path) -> None:
    machine = type(t4())(t4().gpus, init_result=9)
    async with gpu_node(machine, sockets, nvml_library, "--fail-on-init-error=false") as node:
        await until(lambda: node.source.sight is not None)
        assert node.kubelet.unasked_registrations == 0
        await node.driver.reload()
        await node.resource()


async def test_the_command_serves_and_ends(plugbay: Plugbay, nvml_library: Path) -> None:
    """Scenarios 104 and 107."""
    async with fake_driver(t4(), library=nvml_library) as driver, plugbay.node_up() as _:
        command = ("serve", "nvidia", "--driver-root-ctr-path=/", OFTEN, "--log-level", "info")
        async with plugbay.start(*command, env=environ_of(driver)) as plugin:
            done = await plugbay("node", "wait", "--for=resource=nvidia.com/gpu=1", "--timeout", "60s")
            assert done.code == 0, done
            plugin.send_signal(signal.SIGTERM)
            assert await plugin.wait() == 0


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ((), "kernel module does not answer"),
        (("--mig-strategy=foo",), "unknown MIG strategy: foo"),
        (("--health-recovery=foo",), "invalid --health-recovery option: foo"),
        (("--health-clean-time=soon",), "invalid duration"),
        (("--fail-on-init-error=maybe",), 'command line: invalid boolean value "maybe" for -fail-on-init-error'),
        (("--imex-channel-ids=a",), 'command line: invalid value "a" for flag -imex-channel-ids'),
    ],
)
async def test_a_start_that_cannot_work_fails(
    plugbay: Plugbay, nvml_library: Path, flags: tuple[str, ...], problem: str
) -> None:
    """Scenarios 6 and 7, and a driver that is not loaded."""
    machine = type(t4())(t4().gpus, init_result=9)
    async with fake_driver(machine, library=nvml_library) as driver:
        command = ("serve", "nvidia", "--driver-root-ctr-path=/", *flags)
        async with plugbay.start(*command, env=environ_of(driver), stderr=-1) as plugin:
            _, err = await plugin.communicate()
    assert plugin.returncode == 1, "as that of NVIDIA's plugin"
    assert problem in err.decode()
    assert ("Running with config:" in err.decode()) is (not flags), "a configuration that is read is printed first"


async def test_a_start_with_a_variable_that_cannot_be_read_fails(plugbay: Plugbay) -> None:
    """Scenario 7."""
    environ = {**os.environ, "FAIL_ON_INIT_ERROR": "maybe"}
    async with plugbay.start("serve", "nvidia", env=environ, stderr=-1) as plugin:
        _, err = await plugin.communicate()
    assert plugin.returncode == 1
    assert 'environment: could not parse "maybe" as bool value' in err.decode()


async def test_devices_are_shown_without_a_kubelet(plugbay: Plugbay, nvml_library: Path) -> None:
    async with fake_driver(t4(), library=nvml_library) as driver:
        async with plugbay.start("devices", "nvidia", "--driver-root-ctr-path=/", env=environ_of(driver)) as shown:
            out, _ = await shown.communicate()
    assert out.decode().splitlines()[1].split() == ["nvidia.com/gpu", t4().gpus[0].uuid, "Healthy", "<none>", "<none>"]


LABEL = "nvidia.com_device-plugin.config"


async def test_a_label_of_the_node_switches_the_configuration(
    sockets: Path, nvml_library: Path, caplog: pytest.LogCaptureFixture
) -> None:
    configs = sockets / "configs"
    configs.mkdir()
    for name, count in (("two", 2), ("four", 4)):
        (configs / name).write_text(f"sharing: {{timeSlicing: {{resources: [{{name: gpu, replicas: {count}}}]}}}}\n")
    (configs / "broken").write_text("version: v2\n")
    flags = (f"--config-file-srcdir={configs}", "--node-name=n1", "--rescan-interval=1h")
    async with nodes_api(sockets) as api:
        api.label("n1", **{LABEL: "two"})
        async with gpu_node(t4(), sockets, nvml_library, *flags, node=api.node("other")) as node:
            plugin = await node.resource()
            await until(lambda: len(plugin.devices) == 2)
            await until(lambda: api.watches)
            api.label("n1", **{LABEL: "four"})
            await until(lambda: len(plugin.devices) == 4)
            api.label("n1", **{LABEL: "broken"})
            await until(lambda: "'broken' is broken" in caplog.text)
            api.label("n1", **{LABEL: "missing"})
            await until(lambda: "specified config missing does not exist" in caplog.text)
            assert len(plugin.devices) == 4
            state = node.source.config_state
            assert state is not None
            assert (state.name, "config missing does not exist" in state.problem) == ("four", True)
            (configs / "four").write_text("sharing: {timeSlicing: {resources: [{name: gpu, replicas: 5}]}}\n")
            api.label("n1", **{LABEL: "four"})
            await until(lambda: len(plugin.devices) == 5)
            assert not plugin.ended.is_set()


async def test_wsl_offers_all_gpus_as_one_device(sockets: Path, nvml_library: Path) -> None:
    """Scenario 49."""
    lay_out_wsl(sockets / "machine")
    async with gpu_node(a100_nvswitch(), sockets, nvml_library, "--pass-device-specs") as node:
        plugin = await node.resource()
        await until(lambda: plugin.devices)
        assert set(plugin.devices) == {"all"}
        answer = await plugin.client.allocate(ids("all"))
        assert answer is not None
        assert dict(answer.edits.env) == {"NVIDIA_VISIBLE_DEVICES": "all"}
        assert "/dev/dxg" in [each.container_path for each in answer.edits.device_nodes]
        await until(lambda: node.source.health.is_watching)
        await node.driver.xid(3, 79)
        await until(lambda: unhealthy(plugin) == {"all": "Xid79"})


async def test_tegra_offers_its_gpu_without_a_driver_library(sockets: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Scenario 50."""
    root = sockets / "machine"
    lay_out_tegra(root)
    arguments, environment = parse_flags([OFTEN], {})
    source = NvidiaSource(NodeSettings(arguments, environment, {}, root, sockets / "cdi"))
    paths = KubeletPaths(sockets / "k")
    with caplog.at_level(logging.INFO):
        async with fake_kubelet(paths) as kubelet, serving([source], paths=paths):
            plugin = await kubelet.next_registration()
            await until(lambda: plugin.devices)
            assert set(plugin.devices) == {"tegra"}
            assert await env(plugin, "tegra") == {"NVIDIA_VISIBLE_DEVICES": "tegra"}
            view = source.view
            assert view is not None
            await until(lambda: view.looks > 3)
            assert not unhealthy(plugin)
    assert caplog.text.count("Running with config") == 1


async def test_device_nodes_are_named_in_answers(sockets: Path, nvml_library: Path) -> None:
    """Scenarios 80 and 82."""
    flags = ("--mig-strategy=mixed", "--pass-device-specs", "--dev-root=/host")
    machine = h100_mig()
    async with gpu_node(machine, sockets, nvml_library, *flags) as node:
        plugin = await node.resource("nvidia.com/mig-3g.40gb")
        assert machine.gpus[3].mig is not None
        answer = await plugin.client.allocate(ids(machine.gpus[3].mig.devices[0].uuid))
        assert answer is not None
        found = [(each.host_path, each.container_path, each.permissions) for each in answer.edits.device_nodes]
    paths = [path for _, path, _ in found]
    assert "/dev/nvidia3" in paths
    assert len([path for path in paths if path.startswith("/dev/nvidia-caps/")]) == 2
    assert all((host, allowed) == (f"/host{path}", "rw") for host, path, allowed in found)


async def test_an_entry_of_a_config_file_serves_gpus(plugbay: Plugbay, nvml_library: Path) -> None:
    config = plugbay.root / "plugins.yaml"
    config.write_text(
        "plugins:\n- target: nvidia\n  settings: {driver-root-ctr-path: /, mig-strategy: mixed, rescan-interval: 1s}\n"
    )
    async with fake_driver(t4(), library=nvml_library) as driver, plugbay.node_up() as _:
        async with plugbay.start("serve", "--config", str(config), env=environ_of(driver)):
            done = await plugbay("node", "wait", "--for=resource=nvidia.com/gpu=1", "--timeout", "60s")
            assert done.code == 0, done
