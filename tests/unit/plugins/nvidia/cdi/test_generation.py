"""CDI specs beside those that the reference wrote, and what it does not do."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Final

import pytest

from plugbay.cdi.directories import read_file
from plugbay.cdi.spec import Hook, Spec
from plugbay.cdi.text import plain
from plugbay.errors import GpusUnusable
from plugbay.plugins.nvidia.answers.features import CdiClass, ImexChannel
from plugbay.plugins.nvidia.cdi.devices import spec_devices
from plugbay.plugins.nvidia.cdi.driver_files import find_driver_files
from plugbay.plugins.nvidia.cdi.elf import soname_of
from plugbay.plugins.nvidia.cdi.generation import gpu_spec, imex_spec, optional_spec
from plugbay.plugins.nvidia.cdi.hooks import HookMode, HookPrograms
from plugbay.plugins.nvidia.cdi.nodes import NodeFinder
from plugbay.plugins.nvidia.cdi.roots import SpecRoots
from plugbay.plugins.nvidia.cdi.writing import write_specs
from plugbay.plugins.nvidia.config.choices import DeviceIdStrategy, MigStrategy
from tests.unit.plugins.nvidia.driver_trees import VERSION, elf, golden_driver, make_nodes, write
from tests.unit.plugins.nvidia.golden_machines import Case, configured, golden, machine, minors

SPECS: Final[dict[str, Any]] = golden("cdi-specs")["specs"]
CASES: Final[dict[str, Case]] = {
    **{case["name"]: case for case in golden("allocate")["cases"]},
    # Their answers were not recorded.
    "cdi-cri index": {"node": "two-a100", "args": ["--device-id-strategy=index"]},
    "cdi-cri MIG single": {"node": "mig-3x1g", "args": ["--mig-strategy=single"]},
}
HOST: Final = "/run/nvidia/driver"


def roots(root: Path) -> SpecRoots:
    return SpecRoots(root, root, HOST, HOST)


def generated(
    root: Path,
    *,
    node: str = "two-a100",
    mig: MigStrategy = MigStrategy.NONE,
    ids: DeviceIdStrategy = DeviceIdStrategy.UUID,
    programs: HookPrograms | None = None,
    mode: HookMode = HookMode.TOOLKIT,
    sys: Path = Path("/nonexistent"),
) -> Spec:
    devices = spec_devices(machine(node), minors(), mig=mig, ids=ids)
    files = find_driver_files(root, VERSION, machine_root=root)
    finder = NodeFinder(roots(root), sys)
    return gpu_spec(devices, files, finder, programs=programs or HookPrograms(), mode=mode)


@pytest.mark.parametrize("name", SPECS)
def test_scenario_88_and_all_golden_specs_are_equal(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    configuration = configured(case["args"], config=case.get("config"))
    spec = generated(
        golden_driver(tmp_path),
        node=case["node"],
        mig=configuration.mig_strategy,
        ids=configuration.id_strategy,
        programs=HookPrograms(configuration.cdi.hook_path, frozenset(configuration.cdi.disabled_hooks)),
    )
    assert plain(spec) == SPECS[name]["spec"]


def test_files_have_the_reference_s_names_and_are_read_by_engines(tmp_path: Path) -> None:
    spec = generated(golden_driver(tmp_path / "driver"))
    written = write_specs({CdiClass.GPU: spec, CdiClass.GDS: None}, tmp_path / "cdi")
    assert written == {CdiClass.GPU}
    (file,) = (tmp_path / "cdi").iterdir()
    assert file.name == os.path.basename(SPECS["cdi-cri index"]["file"])
    assert file.stat().st_mode & 0o777 == 0o644
    assert read_file(file) == spec
    assert json.loads(file.read_text()) == SPECS["cdi-annotations"]["spec"]


def test_a_class_that_is_gone_loses_its_file(tmp_path: Path) -> None:
    spec = generated(golden_driver(tmp_path / "driver"))
    write_specs({CdiClass.GPU: spec}, tmp_path / "cdi")
    assert write_specs({CdiClass.GPU: None}, tmp_path / "cdi") == frozenset()
    assert list((tmp_path / "cdi").iterdir()) == []


def test_without_libraries_of_the_driver_s_version_there_is_no_spec(tmp_path: Path) -> None:
    problem = re.escape(f'failed to locate "libcuda.so.": libcuda.so.{VERSION}: not found')
    with pytest.raises(GpusUnusable, match=problem) as caught:
        find_driver_files(tmp_path, VERSION, machine_root=tmp_path)
    assert caught.value.reference_text.startswith("unable to create cdi spec file: failed to get CDI spec: failed to")


@pytest.mark.parametrize(
    ("programs", "args"),
    [
        (HookPrograms("/usr/bin/nvidia-cdi-hook"), ("nvidia-cdi-hook", "enable-cuda-compat")),
        (HookPrograms("/opt/nvidia-ctk"), ("nvidia-ctk", "hook", "enable-cuda-compat")),
    ],
)
def test_hooks_are_called_as_their_program_wants(programs: HookPrograms, args: tuple[str, ...], tmp_path: Path) -> None:
    hooks = generated(golden_driver(tmp_path), programs=programs).edits.hooks
    assert hooks[1] == Hook(
        "createContainer", programs.path, (*args, f"--host-driver-version={VERSION}"), ("NVIDIA_CTK_DEBUG=false",)
    )


def test_disabled_hooks_are_left_out(tmp_path: Path) -> None:
    golden_driver(tmp_path)
    some = generated(tmp_path, programs=HookPrograms(disabled=frozenset({"enable-cuda-compat", "create-symlinks"})))
    assert [hook.args[2] for hook in some.edits.hooks] == [
        "update-ldcache",
        "disable-device-node-modification",
        "update-application-profile",
    ]
    assert (
        "hooks" not in plain(generated(tmp_path, programs=HookPrograms(disabled=frozenset({"all"}))))["containerEdits"]
    )


def test_self_contained_specs_mount_libraries_under_each_name_and_run_nothing(tmp_path: Path) -> None:
    spec = generated(golden_driver(tmp_path), mode=HookMode.SELF_CONTAINED)
    assert all(edits.hooks == () for edits in spec.all_edits())
    assert "LD_LIBRARY_PATH=/usr/lib64" in spec.edits.env
    places = {mount.container_path: mount.host_path for mount in spec.edits.mounts if ".so" in mount.container_path}
    cuda, ml = (f"{HOST}/usr/lib64/{name}.so.{VERSION}" for name in ("libcuda", "libnvidia-ml"))
    assert {path: places[path] for path in places if "ptx" not in path} == {
        f"/usr/lib64/libcuda.so.{VERSION}": cuda,
        "/usr/lib64/libcuda.so.1": cuda,
        "/usr/lib64/libcuda.so": cuda,
        f"/usr/lib64/libnvidia-ml.so.{VERSION}": ml,
        "/usr/lib64/libnvidia-ml.so.1": ml,
    }


def test_a_gpu_in_mig_mode_that_is_offered_whole_has_a_device(tmp_path: Path) -> None:
    spec = generated(golden_driver(tmp_path), node="mig-3x1g", mig=MigStrategy.NONE)
    assert spec.devices[0].name == "GPU-00000000-0000-0000-0000-000000000000"
    assert len(spec.devices) == 4


def test_nodes_for_graphics_and_their_links_by_pci_address(tmp_path: Path) -> None:
    root = golden_driver(tmp_path / "driver")
    make_nodes(root, {"dri/card1": (226, 1), "dri/renderD128": (226, 128)}, mode=0o660, gid=44)
    os.chown(root / "dev/nvidia0", 0, 107)
    (root / "dev/nvidia0").chmod(0o660)
    for name in ("card1", "renderD128"):
        (tmp_path / "sys/bus/pci/devices/0000:3b:00.0/drm" / name).mkdir(parents=True)
    links = root / "dev/dri/by-path"
    links.mkdir()
    (links / "pci-0000:3b:00.0-card").symlink_to("../card1")
    (links / "pci-0000:3b:00.0-render").symlink_to("../renderD128")
    first, second = generated(root, sys=tmp_path / "sys").devices
    assert [node.path for node in first.edits.device_nodes] == ["/dev/nvidia0", "/dev/dri/card1", "/dev/dri/renderD128"]
    assert first.edits.hooks[0].args == (
        "nvidia-ctk",
        "hook",
        "create-symlinks",
        "--link",
        "../card1::/dev/dri/by-path/pci-0000:3b:00.0-card",
        "--link",
        "../renderD128::/dev/dri/by-path/pci-0000:3b:00.0-render",
    )
    assert first.edits.additional_gids == (44, 107), "as the reference sorts them"
    assert plain(first.edits.device_nodes[1])["gid"] == 44
    assert [node.path for node in second.edits.device_nodes] == ["/dev/nvidia1"]
    assert generated(root, sys=tmp_path / "sys").version == "0.7.0"


def test_paths_of_the_host_are_those_of_its_roots(tmp_path: Path) -> None:
    root = golden_driver(tmp_path / "driver")
    dev = tmp_path / "container"
    make_nodes(dev, {"nvidiactl": (195, 255), "nvidia0": (195, 0)})
    found = SpecRoots(root, dev, "/opt/driver", "/host")
    spec = gpu_spec(
        spec_devices(machine("two-a100"), minors(), mig=MigStrategy.NONE, ids=DeviceIdStrategy.INDEX),
        find_driver_files(root, VERSION, machine_root=tmp_path),
        NodeFinder(found, tmp_path),
        programs=HookPrograms(),
    )
    assert spec.devices[0].edits.device_nodes[0].host_path == "/host/dev/nvidia0"
    assert {mount.host_path.partition("/usr/")[0] for mount in spec.edits.mounts if "/usr/" in mount.host_path} == {
        "/opt/driver"
    }


@pytest.mark.parametrize(
    ("container", "container_dev", "host", "host_dev", "on_host"),
    [
        ("/", "/", "/", "/", ""),
        ("/driver-root", "/", "/", "/", "/dev/nvidia0"),
        ("/driver-root", "/", "/driver-root", "/", ""),
        ("/driver-root", "/", "/driver-root", "/dev", ""),
        ("/driver-root", "/", "", "", ""),
        ("/driver-root", "/", "/run/driver", "/", "/dev/nvidia0"),
        ("/driver-root", "/", "/run/driver", "/run/driver", "/run/driver/dev/nvidia0"),
        ("/driver-root", "/driver-root", "/", "/ignored", "/dev/nvidia0"),
        ("/driver-root", "/driver-root", "/driver-root", "/ignored", "/driver-root/dev/nvidia0"),
        ("/driver-root", "/", "/a/../b//c/", "/a/../b//c/", "/b/c/dev/nvidia0"),
    ],
)
def test_nodes_have_a_host_s_path_unless_no_root_is_another_on_the_host(
    container: str, container_dev: str, host: str, host_dev: str, on_host: str
) -> None:
    found = SpecRoots(Path(container), Path(container_dev), host, host_dev)
    assert found.named_host_node("/dev/nvidia0") == on_host


def test_sockets_and_graphics_files(tmp_path: Path) -> None:
    root = golden_driver(tmp_path)
    write(root, "run/nvidia-persistenced/socket")
    write(root, "etc/OpenCL/vendors/nvidia.icd")
    write(root, "usr/lib64/libnvidia-egl-gbm.so.1.1.1")
    write(root, f"usr/lib64/libnvidia-allocator.so.{VERSION}", elf("libnvidia-allocator.so.1"))
    write(root, f"usr/lib64/vdpau/libvdpau_nvidia.so.{VERSION}")
    write(root, f"usr/lib64/libGLX_nvidia.so.{VERSION}")
    write(root, "usr/lib64/xorg/modules/drivers/nvidia_drv.so")
    spec = generated(root)
    mounts = {mount.container_path: mount for mount in spec.edits.mounts}
    assert mounts["/run/nvidia-persistenced/socket"].options == ("nosuid", "nodev", "rbind", "rprivate", "noexec")
    for path in (
        "/etc/OpenCL/vendors/nvidia.icd",
        "/usr/lib64/libnvidia-egl-gbm.so.1.1.1",
        f"/usr/lib64/vdpau/libvdpau_nvidia.so.{VERSION}",
        "/usr/lib64/xorg/modules/drivers/nvidia_drv.so",
    ):
        assert mounts[path].host_path == HOST + path
    graphics, driver = (hook.args[3:] for hook in spec.edits.hooks if "create-symlinks" in hook.args)
    assert graphics == ("--link", "../libnvidia-allocator.so.1::/usr/lib64/gbm/nvidia-drm_gbm.so")
    assert f"libGLX_nvidia.so.{VERSION}::/usr/lib64/libGLX_indirect.so.0" in driver
    folders = next(hook.args[3:] for hook in spec.edits.hooks if "update-ldcache" in hook.args)
    assert folders == ("--folder", "/usr/lib64", "--folder", "/usr/lib64/vdpau")


def test_optional_classes_have_a_device_for_all_or_no_spec(tmp_path: Path) -> None:
    finder = NodeFinder(roots(tmp_path), tmp_path)
    assert [optional_spec(each, finder) for each in (CdiClass.GDRCOPY, CdiClass.GDS, CdiClass.MOFED)] == [None] * 3
    make_nodes(tmp_path, {"gdrdrv": (240, 0), "nvidia-fs0": (241, 0), "nvidia-fs1": (241, 1)})
    make_nodes(tmp_path, {"infiniband/uverbs0": (231, 192), "infiniband/rdma_cm": (10, 58)})
    (tmp_path / "run/udev").mkdir(parents=True)
    write(tmp_path, "etc/cufile.json")
    specs = {each: optional_spec(each, finder) for each in (CdiClass.GDRCOPY, CdiClass.GDS, CdiClass.MOFED)}
    assert {
        each: [node.path for node in spec.devices[0].edits.device_nodes] for each, spec in specs.items() if spec
    } == {
        CdiClass.GDRCOPY: ["/dev/gdrdrv"],
        CdiClass.GDS: ["/dev/nvidia-fs0", "/dev/nvidia-fs1"],
        CdiClass.MOFED: ["/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0"],
    }
    gds = specs[CdiClass.GDS]
    assert gds is not None
    assert [device.name for device in gds.devices] == ["all"]
    assert {mount.container_path for mount in gds.devices[0].edits.mounts} == {"/run/udev", "/etc/cufile.json"}
    assert write_specs(specs, tmp_path / "cdi") == set(specs)


def test_imex_channels_are_named_by_their_numbers(tmp_path: Path) -> None:
    spec = imex_spec([ImexChannel(0)], roots(tmp_path))
    assert spec is not None
    assert plain(spec)["devices"] == [
        {
            "name": "0",
            "containerEdits": {
                "deviceNodes": [
                    {
                        "path": "/dev/nvidia-caps-imex-channels/channel0",
                        "hostPath": f"{HOST}/dev/nvidia-caps-imex-channels/channel0",
                    }
                ]
            },
        }
    ]
    assert imex_spec([], roots(tmp_path)) is None


@pytest.mark.parametrize(
    ("content", "soname"),
    [
        (elf("libx.so.1"), "libx.so.1"),
        (b"", None),
        (b"\x7fELF", None),
        (elf("libx.so.1")[:70], None),
        (b"#!/bin/sh", None),
    ],
)
def test_sonames_are_read_and_broken_files_have_none(content: bytes, soname: str | None, tmp_path: Path) -> None:
    (tmp_path / "libx.so").write_bytes(content)
    assert soname_of(tmp_path / "libx.so") == soname
