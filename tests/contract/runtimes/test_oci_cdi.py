"""CDI devices and the handler nvidia with real engines and containers."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from plugbay.cdi.directories import save
from plugbay.cdi.host import find_node
from plugbay.cdi.names import CdiKind
from plugbay.errors import ContainerStartError
from plugbay.model.devices import Device
from plugbay.model.edits import ContainerEdits, DeviceNode
from plugbay.model.security import Security
from plugbay.runtimes.port import ContainerSpec
from plugbay.sdk.cdi.entries import entries_of, spec_of
from tests.container_specs import changed
from tests.contract.rigs.oci import Places, needs_fuse, output_of, places, runtime_on, spec, why_not, write_cdi
from tests.contract.rigs.process import sh

__all__ = ["places", "spec"]

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(why_not()), reason=why_not())]


@pytest.fixture
def gophers(places: Places, tmp_path: Path) -> None:
    """CDI devices with everything that the engines know."""
    (tmp_path / "driver").write_text("driver file\n")
    hook = {"hookName": "createContainer", "path": "/bin/sh", "args": ["sh", "-c", f"echo $H > {tmp_path}/hook"]}
    write_cdi(
        places,
        "vendor.example/gopher",
        {
            "env": ["FROM_CDI=yes"],
            "mounts": [
                {"hostPath": f"{tmp_path}/driver", "containerPath": "/run/driver", "options": ["bind", "ro"]},
            ],
        },
        {
            "g0": {
                "env": ["GOPHER=g0"],
                "deviceNodes": [{"path": "/dev/gopher0", "hostPath": "/dev/fuse", "permissions": "rw"}],
                "hooks": [{**hook, "env": ["H=hooked"]}],
            },
            "g1": {
                "deviceNodes": [
                    {"path": "/dev/g1", "type": "c", "major": 1, "minor": 5, "fileMode": 0o644, "uid": 7, "gid": 8}
                ],
                "additionalGids": [777],
            },
        },
    )


SHOW = "echo $FROM_CDI $GOPHER; cat /run/driver; stat -c '%n %t:%T %a %u:%g' /dev/g*[0-9] | sort; id -G"


@needs_fuse
@pytest.mark.usefixtures("gophers")
@pytest.mark.parametrize("carrier", ["field", "annotation", "both"])
async def test_cdi_devices_are_injected(places: Places, spec: ContainerSpec, carrier: str, tmp_path: Path) -> None:
    names = ("vendor.example/gopher=g0", "vendor.example/gopher=g1")
    annotations = {"cdi.k8s.io/vendor_g": ",".join(names), "example.com/kept": "x"}
    edits = ContainerEdits(
        cdi_devices=names if carrier != "annotation" else (), annotations=annotations if carrier != "field" else {}
    )
    async with runtime_on(places) as runtime:
        text = await output_of(runtime, changed(sh(spec, SHOW), env={"GOPHER": "pod"}, edits=edits))
    assert text.splitlines() == [
        "yes g0",
        "driver file",
        "/dev/g1 1:5 644 7:8",
        f"/dev/gopher0 a:e5 {os.stat('/dev/fuse').st_mode & 0o777:o} 0:0",
        "0 777",
    ]
    assert (tmp_path / "hook").read_text() == "hooked\n"


async def test_a_node_is_the_same_by_cdi_name_and_by_edits(places: Places, spec: ContainerSpec, tmp_path: Path) -> None:
    """Mode and owner are the host's, whoever the container runs as."""
    node = tmp_path / "node"
    os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    node.chmod(0o620)
    os.chown(node, 7, 8)
    device = Device("g1", device_nodes=[DeviceNode(node, container_path="/dev/given")])
    published = spec_of(CdiKind("vendor.example", "owned"), {"g1": entries_of(device, find_node)})
    save(published, places.cdi, "owned")
    ways = {"edits": device.edits, "name": ContainerEdits(cdi_devices=["vendor.example/owned=g1"])}
    security = Security(run_as_user=1000, run_as_group=2000)
    seen = {}
    async with runtime_on(places) as runtime:
        for attempt, (way, edits) in enumerate(ways.items()):
            wanted = changed(sh(spec, "stat -c '%t:%T %a %u:%g' /dev/given"), edits=edits, security=security)
            seen[way] = await output_of(runtime, changed(wanted, attempt=attempt))
    assert seen == dict.fromkeys(ways, "1:3 620 7:8\n")


@pytest.mark.usefixtures("gophers")
@pytest.mark.parametrize(
    ("edits", "text"),
    [
        (
            ContainerEdits(cdi_devices=("vendor.example/gopher=g9", "no.example/x=y")),
            r"^CDI device injection failed: unresolvable CDI devices vendor.example/gopher=g9, no.example/x=y \(looked",
        ),
        (ContainerEdits(annotations={"cdi.k8s.io/x": "gopher"}), "^CDI device injection failed: .*unqualified"),
    ],
)
async def test_cdi_devices_that_nobody_defines_fail_the_start(
    places: Places, spec: ContainerSpec, edits: ContainerEdits, text: str
) -> None:
    async with runtime_on(places) as runtime:
        with pytest.raises(ContainerStartError, match=text) as caught:
            await runtime.start(changed(spec, edits=edits))
        assert caught.value.reason == "CreateContainerError"
        assert await runtime.list() == []


@pytest.mark.parametrize(
    ("visible", "seen"),
    [
        ("0", "gpu0"),
        ("1,0,1", "gpu0 gpu1"),
        ("GPU-8f1c2a3b-0000-0000-0000-000000000001", "gpu1"),
        ("all", "gpu0 gpu1"),
        ("management.nvidia.com/gpu=all", "ctl"),
        ("none", ""),
        ("void", ""),
        ("", ""),
        (None, ""),
    ],
)
async def test_handler_nvidia_gives_what_the_environment_names(
    places: Places, spec: ContainerSpec, tmp_path: Path, visible: str | None, seen: str
) -> None:
    (tmp_path / "libcuda").write_text("driver\n")
    mount = {"hostPath": f"{tmp_path}/libcuda", "containerPath": "/run/libcuda", "options": ["bind", "ro"]}
    gpus: list[dict[str, object]] = [
        {"deviceNodes": [{"path": f"/dev/gpu{number}", "type": "c", "major": 1, "minor": 3 + 2 * number}]}
        for number in (0, 1)
    ]
    both: dict[str, object] = {"deviceNodes": [each["deviceNodes"][0] for each in gpus]}  # type: ignore[index]  # ours
    write_cdi(
        places,
        "nvidia.com/gpu",
        {"mounts": [mount]},
        {"0": gpus[0], "1": gpus[1], "GPU-8f1c2a3b-0000-0000-0000-000000000001": gpus[1], "all": both},
    )
    control: dict[str, object] = {"deviceNodes": [{"path": "/dev/ctl", "type": "c", "major": 1, "minor": 7}]}
    write_cdi(places, "management.nvidia.com/gpu", {"mounts": [mount]}, {"all": control})
    env = {} if visible is None else {"NVIDIA_VISIBLE_DEVICES": visible}
    script = "cd /dev; echo $(ls -d gpu* ctl 2>/dev/null); cat /run/libcuda 2>/dev/null; true"
    async with runtime_on(places) as runtime:
        wanted = changed(sh(spec, script), env=env, runtime_class="nvidia")
        given = (await output_of(runtime, wanted)).splitlines()
        plain = await output_of(runtime, changed(wanted, runtime_class="", attempt=1))
    assert given == ([seen, "driver"] if seen else [""])
    assert plain == "\n", "only the handler looks at the variable"


async def test_handler_nvidia_refuses_what_is_not_there(places: Places, spec: ContainerSpec) -> None:
    async with runtime_on(places) as runtime:
        wanted = changed(spec, env={"NVIDIA_VISIBLE_DEVICES": "7"}, runtime_class="nvidia")
        with pytest.raises(ContainerStartError, match=r"unresolvable CDI devices nvidia\.com/gpu=7"):
            await runtime.start(wanted)
