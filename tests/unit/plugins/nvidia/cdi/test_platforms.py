"""The CDI specs of Tegra and WSL beside those that the reference wrote of the same files."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from plugbay.cdi.spec import Spec
from plugbay.cdi.text import plain
from plugbay.errors import GpusUnusable
from plugbay.plugins.nvidia.answers.features import CdiClass
from plugbay.plugins.nvidia.cdi.devices import NodesOfDevice
from plugbay.plugins.nvidia.cdi.generation import divide
from plugbay.plugins.nvidia.cdi.hooks import HookMode, HookPrograms
from plugbay.plugins.nvidia.cdi.mount_lists import mount_lists, read_lists
from plugbay.plugins.nvidia.cdi.nodes import NodeFinder
from plugbay.plugins.nvidia.cdi.roots import SpecRoots
from plugbay.plugins.nvidia.cdi.tegra import tegra_spec
from plugbay.plugins.nvidia.cdi.tree import DriverTree
from plugbay.plugins.nvidia.cdi.writing import write_specs
from plugbay.plugins.nvidia.cdi.wsl import find_store, wsl_spec
from plugbay.plugins.nvidia.config.choices import DeviceIdStrategy
from plugbay.plugins.nvidia.survey import GpuUuid, Survey, UnreadableGpu
from tests.unit.plugins.nvidia.driver_trees import WSL_STORE, make_nodes, tegra_board, write, wsl_machine
from tests.unit.plugins.nvidia.golden_machines import golden, machine

SPECS: Final[dict[str, Any]] = golden("cdi-platforms")
HOST: Final = "/run/nvidia/driver"
STORE: Final = f"/{WSL_STORE}"
LIBRARIES: Final = "/usr/lib/aarch64-linux-gnu"
[PLAIN, *_] = machine("two-a100").gpus
ORIN: Final = replace(PLAIN, name="Orin (nvgpu)", pci_bus_id="", minor=0)
THOR: Final = replace(PLAIN, name="NVIDIA Thor", pci_bus_id="0000:01:00.0", minor=0)
BESIDE: Final = replace(PLAIN, uuid=GpuUuid("GPU-beside"), pci_bus_id="0000:af:00.0", index=1, minor=1)
SURVEYS: Final = {
    "tegra without NVML": None,
    "tegra with the GPU of an Orin": Survey("540.4.0", (12, 4), (ORIN,)),
    "tegra with a Thor and a GPU beside it": Survey("540.4.0", (12, 4), (THOR, BESIDE)),
}


def finder_of(root: Path) -> NodeFinder:
    return NodeFinder(SpecRoots(root, root, HOST, HOST), root / "sys")


def of_tegra(root: Path, survey: Survey | None, **settings: Any) -> Spec:
    lists = read_lists(mount_lists(root, root))
    chosen = {"ids": DeviceIdStrategy.INDEX, "programs": HookPrograms(), **settings}
    return tegra_spec(lists, finder_of(root), survey, **chosen)


def of_wsl(root: Path, mode: HookMode = HookMode.TOOLKIT) -> Spec:
    store, _ = find_store(DriverTree(root))
    device = NodesOfDevice("all", "all", ("/dev/dxg",))
    return wsl_spec(device, store, finder_of(root), programs=HookPrograms(), mode=mode)


def expected(name: str) -> Any:
    """The reference's spec, with the host's root of the driver in place of that of the process.

    The reference gives links of lists the process' root, also in containers, and mounts the release file of the
    process' own container.
    """
    text = json.dumps(SPECS[name]).replace("::{root}/", "::/").replace("{root}", HOST)
    return json.loads(text.replace('"hostPath": "/etc/nv_tegra_release"', f'"hostPath": "{HOST}/etc/nv_tegra_release"'))


@pytest.mark.parametrize("name", SURVEYS)
def test_specs_of_tegra_are_those_of_the_reference(name: str, tmp_path: Path) -> None:
    spec = of_tegra(tegra_board(tmp_path), SURVEYS[name])
    assert plain(spec) == expected(name)
    assert write_specs({CdiClass.GPU: spec}, tmp_path / "cdi")


def test_the_spec_of_wsl_is_that_of_the_reference(tmp_path: Path) -> None:
    spec = plain(of_wsl(wsl_machine(tmp_path)))
    wanted = SPECS["wsl"]
    for mount in spec["containerEdits"]["mounts"]:
        mount["hostPath"] = mount["hostPath"].removeprefix(HOST)  # Windows' files were outside the driver's root
    assert spec == json.loads(json.dumps(wanted).replace("{root}", HOST))


def test_devices_of_tegra_have_the_names_of_answers(tmp_path: Path) -> None:
    root, survey = tegra_board(tmp_path), SURVEYS["tegra with a Thor and a GPU beside it"]
    assert [each.name for each in of_tegra(root, survey, ids=DeviceIdStrategy.UUID).devices] == ["tegra", "GPU-beside"]
    assert [each.name for each in of_tegra(root, survey, is_single=True).devices] == ["0"]


def test_a_gpu_that_is_lost_takes_its_node_from_the_tegra_s_own(tmp_path: Path) -> None:
    lost = Survey("540.4.0", (12, 4), (THOR,), (UnreadableGpu(1, "GPU is lost", 15),))
    [device] = of_tegra(tegra_board(tmp_path), lost).devices
    paths = [node.path for node in device.edits.device_nodes]
    assert "/dev/nvidia1" not in paths
    assert "/dev/nvidia2" in paths


def test_without_nodes_a_tegra_has_no_device(tmp_path: Path) -> None:
    root = tegra_board(tmp_path)
    for node in (root / "dev").rglob("*"):
        if not node.is_dir():
            node.unlink()
    assert of_tegra(root, None).devices == ()


def test_without_hooks_tegra_has_mounts_for_links(tmp_path: Path) -> None:
    spec = of_tegra(tegra_board(tmp_path), None, mode=HookMode.SELF_CONTAINED)
    mounts = {mount.container_path: mount.host_path for mount in spec.edits.mounts}
    cuda = f"{HOST}{LIBRARIES}/nvidia/libcuda.so.1.1"
    assert {
        name: mounts[f"{LIBRARIES}/{name}"] for name in ("libcuda.so", "nvidia/libcuda.so", "nvidia/libcuda.so.1")
    } == {"libcuda.so": cuda, "nvidia/libcuda.so": cuda, "nvidia/libcuda.so.1": cuda}
    assert mounts[f"{LIBRARIES}/nvidia/libnvidia-ml.so.1"].endswith("libnvidia-ml.so.540.4.0")
    assert f"LD_LIBRARY_PATH={LIBRARIES}/nvidia" in spec.edits.env
    assert not spec.edits.hooks


def test_without_hooks_wsl_has_a_mount_for_nvidia_smi(tmp_path: Path) -> None:
    spec = of_wsl(wsl_machine(tmp_path), HookMode.SELF_CONTAINED)
    mounts = {mount.container_path: mount.host_path for mount in spec.edits.mounts}
    assert mounts["/usr/bin/nvidia-smi"] == f"{HOST}{STORE}/nvidia-smi"
    assert f"LD_LIBRARY_PATH={STORE}:/usr/lib/wsl/lib" in spec.edits.env
    assert not spec.edits.hooks


def test_of_several_drivers_of_windows_the_newest_counts(tmp_path: Path) -> None:
    root = wsl_machine(tmp_path)
    old = f"{WSL_STORE.rpartition('/')[0]}/nv_dispi.inf_amd64_0"
    write(root, f"{old}/libcuda.so.1.1")
    os.utime(root / old / "libcuda.so.1.1", (1, 1))
    assert find_store(DriverTree(root)) == (STORE, (f"/{old}",))


def test_wsl_without_a_driver_of_windows_is_told(tmp_path: Path) -> None:
    with pytest.raises(GpusUnusable, match="failed to find NVIDIA driver store path"):
        find_store(DriverTree(tmp_path))


def test_devices_without_their_nodes_are_told_apart(tmp_path: Path) -> None:
    make_nodes(tmp_path, {"nvidia0": (195, 0)})
    write(tmp_path, "dev/nvidia1")
    devices = [NodesOfDevice(str(minor), f"GPU-{minor}", (f"/dev/nvidia{minor}",)) for minor in range(3)]
    whole, problems = divide(devices, finder_of(tmp_path))
    assert whole == devices[:1]
    assert list(problems) == ["GPU-1", "GPU-2"]
    assert problems["GPU-2"].startswith(f"/dev/nvidia2 cannot be found below {tmp_path}")
